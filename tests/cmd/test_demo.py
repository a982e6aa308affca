"""`glue demo` without its processes: what it starts, counts, draws and reports."""

from __future__ import annotations

import queue
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from glue.cmd import demo
from glue.cmd.demo import COUNT, NAMES, ReceptionTable
from glue.cmd.output import CommandOutput
from glue.errors import InterfaceError
from glue.network import Interface
from tests.cmd.prepared import Screen, Time, people, programs


def line(publisher: str, sequence: int, payload: Any = "hello") -> dict[str, Any]:
    return {"event": "message", "publisher": publisher, "sequence": sequence, "payload": payload}


def filled(count: int = COUNT) -> ReceptionTable:
    received = ReceptionTable()
    for listener in NAMES:
        for publisher in NAMES:
            for sequence in range(1, count + 1):
                received.add(listener, line(publisher, sequence, f"{sequence}"))
    return received


def test_all_messages_once_and_in_order_are_a_success() -> None:
    received = filled()
    assert (received.good, received.complete, received.total("attic")) == (400, True, 100)
    codes: list[int] = []
    text = "each of 4 endpoints received all 100 messages once, in order, without gaps"
    assert people(lambda output: codes.append(demo.report(received, output))) == text + "\n"
    assert people(lambda output: demo.report(received, output), terminal=True) == f"\x1b[32m{text}\x1b[0m\n"
    assert programs(lambda output: codes.append(demo.report(received, output))) == [
        {"event": "result", "complete": True, "received": 400, "expected": 400}
    ]
    assert codes == [0, 0]


@pytest.mark.parametrize(("listener", "extra", "cell", "good"), [
    ("attic", [line("kitchen", COUNT + 1)], "26", 401), ("attic", [line("kitchen", COUNT)], "26 !", 375),
    ("attic", [line("kitchen", 1)], "26 !", 375), ("garden", [line("stranger", 1)], None, 400),
])  # fmt: skip
def test_one_more_message_is_no_success(listener: str, extra: list[Any], cell: str | None, good: int) -> None:
    received = filled()
    for one in extra:
        received.add(listener, one)
    assert received.good == good
    assert received.complete == (cell is None)
    if cell is not None:
        assert received.rows()[1][4] == cell
        codes: list[int] = []
        told = people(lambda output: codes.append(demo.report(received, output)), terminal=True)
        assert told == f"\x1b[31monly {good} of 400 messages were received in order\x1b[0m\n"
        assert codes == [1]


def test_the_table_has_a_row_for_each_listener_and_what_it_received_last() -> None:
    received = ReceptionTable()
    received.add("cellar", line("attic", 1, {"a": 1}))
    received.add("cellar", line("garden", 2))
    received.add("kitchen", {"event": "complaint", "text": "no\x1b way"})
    received.add("kitchen", {"event": "started"})
    over = [received.over]
    received.add("kitchen", {"event": "ended"})
    assert [*over, received.over] == [False, True]
    assert received.rows() == [
        ["received by", "from attic", "from cellar", "from garden", "from kitchen", "last received"],
        ["attic", "0", "0", "0", "0", ""],
        ["cellar", "1", "0", "1 !", "0", "hello"],
        ["garden", "0", "0", "0", "0", ""],
        ["kitchen", "0", "0", "0", "0", r"no\x1b way"],
    ]
    assert [received.total(name) for name in NAMES] == [0, 2, 0, 0]


def test_a_pipe_gets_a_line_a_second_and_the_table_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    monkeypatch.setattr(demo, "time", clock)

    def draw(output: CommandOutput) -> None:
        screen, received = demo.Screen(output), ReceptionTable()
        for seconds in (0.0, 0.9, 0.2, 0.8, 0.2):
            clock.now += seconds
            screen.draw(received)
        received.add("attic", line("attic", 1))
        screen.finish(received)

    lines = people(draw).splitlines()
    assert lines[:3] == [
        f"{second:3} s  messages received by  attic 0  cellar 0  garden 0  kitchen 0" for second in (0, 1, 2)
    ]
    assert lines[3] == ""
    assert lines[4] == "received by  from attic  from cellar  from garden  from kitchen  last received"
    assert lines[5] == "attic                 1            0            0             0  hello"
    assert lines[9:] == [""]
    assert programs(draw) == []


def test_a_terminal_is_drawn_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    monkeypatch.setattr(demo, "time", clock)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: type("Size", (), {"columns": 24}))
    stream = Screen()
    screen, received = demo.Screen(CommandOutput(stream, False, lambda: None)), ReceptionTable()
    clear = "\x1b[K\n"
    rows = "".join(f"{name:13}{0:>10}{clear}" for name in NAMES)
    first = f"\x1b[1mreceived by  from attic\x1b[0m{clear}{rows}{clear}"
    screen.draw(received)
    assert stream.getvalue() == first
    clock.now += 0.05
    screen.draw(received)
    assert len(stream.getvalue()) == len(first)
    clock.now += 0.06
    screen.draw(received)
    assert stream.getvalue() == first + "\x1b[6A" + first


class Process:
    """A process that says some lines, and does not end when it is asked to."""

    def __init__(self, *lines: str, stubborn: bool = False) -> None:
        self.stdout = [*lines]
        self.stubborn = stubborn
        self.did: list[Any] = []

    def send_signal(self, number: int) -> None:
        self.did.append(number)

    def wait(self, seconds: float | None = None) -> None:
        self.did.append(("wait", seconds))
        if self.stubborn and seconds is not None:
            raise subprocess.TimeoutExpired("x", seconds)

    def kill(self) -> None:
        self.did.append("kill")


def test_processes_are_asked_to_end_and_killed_if_they_do_not() -> None:
    good, bad = Process(), Process(stubborn=True)
    demo.end([bad, good])  # type: ignore[list-item]
    assert good.did == [signal.SIGINT, ("wait", 3.0)]
    assert bad.did == [signal.SIGINT, ("wait", 3.0), "kill", ("wait", None)]


def test_processes_end_if_one_of_them_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Process] = []

    def start(*_: Any, **__: Any) -> Process:
        if len(started) == 2:
            raise OSError(11, "Resource temporarily unavailable")
        started.append(Process())
        return started[-1]

    monkeypatch.setattr("subprocess.Popen", start)
    with pytest.raises(OSError, match="unavailable"), demo.processes("lo", queue.SimpleQueue()):
        pass
    assert [process.did for process in started] == [[signal.SIGINT, ("wait", 3.0)]] * 2


def test_what_a_process_says_is_read_whatever_it_is() -> None:
    lines: queue.SimpleQueue[Any] = queue.SimpleQueue()
    demo.read("attic", Process('{"event": "x"}\n', " Traceback:\n"), lines)  # type: ignore[arg-type]
    assert [*demo.news(lines)] == [
        ("attic", {"event": "x"}), ("attic", {"event": "complaint", "text": "Traceback:"}),
        ("attic", {"event": "ended"}),
    ]  # fmt: skip


def test_four_processes_share_a_network_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[list[str], dict[str, Any], Process]] = []

    def start(command: list[str], **options: Any) -> Process:
        made.append((command, options, Process()))
        return made[-1][2]

    monkeypatch.setattr("subprocess.Popen", start)
    lines: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def use() -> None:
        with demo.processes("lo7", lines):
            assert [process.did for _, _, process in made] == [[]] * 4
            assert {lines.get(timeout=20.0)[0] for _ in NAMES} == {*NAMES}, "each is read"
            raise KeyError

    with pytest.raises(KeyError):
        use()
    assert [process.did for _, _, process in made] == [[signal.SIGINT, ("wait", 3.0)]] * 4
    assert [command[-2:] for command, _, _ in made] == [["--endpoint-name", name] for name in NAMES]
    words = made[0][0]
    assert words[:7] == [sys.executable, "-m", "glue.cmd.topics", "--json", "--send-messages", "--interface", "lo7"]
    assert all(words[:-1] == other[0][:-1] for other in made)
    given = dict(zip(words[5::2], words[6::2], strict=False))
    group, _, port = given.pop("--multicast-address").partition(":")
    assert (group, 20_000 <= int(port) < 32_000) == ("239.192.137.1", True)
    assert 1 <= int(given.pop("--network-id")) <= 65_535
    assert given == {
        "--interface": "lo7", "--topic": "home/demo", "--rate": "5.0", "--count": "25", "--wait-for": "3",
        "--duration": "23.0", "--endpoint-name": "attic",
    }  # fmt: skip
    pipe = subprocess.PIPE
    assert made[0][1] == {
        "stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": subprocess.STDOUT, "text": True, "process_group": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("events", "code", "seen"), [(True, 0, 400), (False, 1, 0)])
def test_the_demo_ends_when_all_have_come_or_a_process_has_ended(
    events: bool, code: int, seen: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    used: list[str] = []

    class processes:  # noqa: N801
        def __init__(self, interface: str, lines: Any) -> None:
            used.append(interface)
            for listener in NAMES if events else ():
                for publisher in NAMES:
                    for sequence in range(1, COUNT + 1):
                        lines.put((listener, line(publisher, sequence)))
            if not events:
                lines.put(("attic", {"event": "ended"}))

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(demo, "processes", processes)
    assert demo.main([]) == code
    told = capsys.readouterr().out
    assert told.splitlines()[-1] == (
        "each of 4 endpoints received all 100 messages once, in order, without gaps" if events
        else "only 0 of 400 messages were received in order"
    )  # fmt: skip
    assert told.count("received by") == 2, "a line at once, and the table at the end"
    assert used == [demo.loopback()]
    assert demo.main(["--json"]) == code
    assert capsys.readouterr().out.count('"event": "line"') == (400 if events else 1)


@pytest.mark.parametrize(("up", "addresses", "told"), [
    (True, ("127.0.0.1",), None), (False, ("127.0.0.1",), "switch it on (ip link set en0 up), or name another"),
    (True, (), "switch it on, or name another by --interface"),
])  # fmt: skip
def test_an_interface_that_cannot_be_used_is_told_with_a_cure(
    up: bool, addresses: tuple[str, ...], told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Interface("en0", 1, up=up, ipv4=addresses)
    families: list[int] = []

    def choose(name: str, family: int) -> Any:
        families.append(family)
        return type("Choice", (), {"interface": shown})

    monkeypatch.setattr(demo, "choose_interface", choose)
    if told is None:
        assert demo.usable("en0") == "en0"
    else:
        with pytest.raises(InterfaceError) as refused:
            demo.usable("en0")
        assert told in str(refused.value)
        assert str(refused.value).startswith("interface='en0': it cannot be used: ")
    assert families == [socket.AF_INET]


@pytest.mark.parametrize("name", ["lo", "lo0"])
def test_loopback_is_found_by_its_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "en0"), (2, name), (3, "x")])
    assert demo.loopback() == name
