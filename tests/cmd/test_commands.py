"""The commands as processes on loopback: what they say, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from glue import Peer
from glue.cmd import discovery
from tests.cmd.conftest import TIMEOUT, Start
from tests.support.loopback import loopback_environment

LONG_RUNNING = ("network", "discovery", "transport", "fragmentation", "topics", "endpoint")
LISTENING = {"network": ("--listen",), "endpoint": ("--subscribe", "#")}


def test_two_terminals_show_every_message_once_and_in_order(start: Start) -> None:
    sending = ("--send-messages", "--count", "20", "--rate", "100", "--wait-for", "1", "--duration", "60")
    attic, garden = (start("topics", "--endpoint-name", name, *sending) for name in ("attic", "garden"))
    for terminal in (attic, garden):
        while not len(terminal.heard("attic")) == len(terminal.heard("garden")) == 20:
            terminal.expect("message")
        terminal.process.send_signal(signal.SIGINT)
    for terminal in (attic, garden):
        assert terminal.finish() == 0
        assert terminal.heard("attic") == terminal.heard("garden") == list(range(1, 21))
        assert [(s["received"], s["missing"]) for s in terminal.events[-1]["streams"]] == [(20, 0), (20, 0)]


def test_a_message_heard_has_what_programs_need(start: Start) -> None:
    terminal = start("topics", "--endpoint-name", "attic", "--send-messages", "--count", "1", "--topic", "a/b")
    message = terminal.expect("message")
    assert terminal.finish() == 0
    expected = {
        "event": "message",
        "endpoint": "attic",
        "publisher": "attic",
        "topic": "a/b",
        "sequence": 1,
        "payload": "message 1 from attic",
        "retained": False,
    }
    assert {name: message[name] for name in expected} == expected


def test_a_late_terminal_gets_the_retained_message(start: Start) -> None:
    early = start("topics", "--send-messages", "--count", "3", "--rate", "0", "--retain", "--duration", "60")
    for _ in range(3):
        early.expect("message")
    message = start("topics").expect("message")
    assert (message["retained"], message["sequence"]) == (True, 3)


def test_large_messages_arrive_whole(start: Start) -> None:
    listener = start("fragmentation")
    listener.expect("started")
    sender = start(
        "fragmentation", "--send-messages", "--count", "3", "--rate", "0", "--wait-for", "1", "--size", "1MB"
    )
    heard = [listener.expect("message") for _ in range(3)]
    assert [(m["sequence"], m["size"], m["intact"]) for m in heard] == [(n, 1_000_000, True) for n in (1, 2, 3)]
    assert sender.finish() == 0
    assert sender.events[-1]["layer"] == "fragmentation"


def test_a_message_over_the_limit_is_refused_before_it_is_made(start: Start) -> None:
    command = start("fragmentation", "--send-messages", "--size", "9999999999999M")
    assert command.finish() == 2
    assert "message_limit is" in command.errors()


def test_transport_delivers_in_order_and_tells_its_counters(start: Start) -> None:
    listener = start("transport")
    listener.expect("started")
    sender = start("transport", "--send-messages", "--count", "500", "--rate", "0", "--wait-for", "1")
    assert [listener.expect("message")["sequence"] for _ in range(500)] == list(range(1, 501))
    assert sender.finish() == 0
    assert sender.events[-1]["layer"] == "transport"
    assert sender.events[-1]["counters"]


def test_discovery_tells_who_comes_and_who_goes(start: Start) -> None:
    watcher = start("discovery")
    watcher.expect("started")
    visitor = start("discovery", "--endpoint-name", "visitor")
    assert watcher.expect("peer_added")["peer"] == "visitor"
    visitor.process.send_signal(signal.SIGTERM)
    gone = watcher.expect("peer_removed")
    assert (gone["peer"], gone["reason"]) == ("visitor", "goodbye")
    assert visitor.finish() == 0


@pytest.mark.parametrize(
    ("peers", "told"), [([], "no peers"), ([Peer("attic", "a" * 16, 1, ("10.0.0.1", 7000))], "attic")]
)
def test_discovery_lists_who_is_there_at_the_end(
    peers: list[Peer], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(discovery, "open_endpoint", lambda *_: nullcontext(SimpleNamespace(peers=peers)))
    monkeypatch.setattr("glue.cmd.common.wait_for_end", lambda: None)
    assert discovery.main([]) == 0
    assert told in capsys.readouterr().out


def test_network_names_the_choice_and_hears_its_own_datagrams(start: Start) -> None:
    sender = start("network", "--send-messages", "--endpoint-name", "attic", "--duration", "60")
    assert "asked for" in sender.expect("chosen")["reason"]
    assert sender.expect("datagram")["payload"] == "datagram 1 from attic"
    listed = [event["interface"] for event in sender.events if event["event"] == "interface" and event["chosen"]]
    assert listed == ["lo"]


def test_endpoint_publishes_what_another_hears(start: Start) -> None:
    listener = start("endpoint", "--subscribe", "a/#", "--count", "2")
    listener.expect("started")
    assert start("endpoint", "--publish", "a/b", '{"x": 1}', "--publish", "a/c", "21.5 degrees").finish() == 0
    assert listener.finish() == 0
    heard = [(e["topic"], e["payload"]) for e in listener.events if e["event"] == "message"]
    assert heard == [("a/b", {"x": 1}), ("a/c", "21.5 degrees")]


def test_endpoint_that_does_not_wait_reaches_whoever_is_there(start: Start) -> None:
    listener = start("endpoint", "--subscribe", "a/b", "--count", "3")
    listener.expect("started")
    assert start("endpoint", "--publish", "a/b", "1").finish() == 0  # from here on the listener has subscribed
    assert [start("endpoint", "--publish", "a/b", "1", "--wait", "0").finish() for _ in range(2)] == [0, 0]
    assert listener.finish() == 0


def test_endpoint_says_that_nobody_hears(start: Start) -> None:
    lonely = start("endpoint", "--publish", "a/b", "1", "--wait", "0.1")
    assert lonely.finish() == 1
    assert "nobody subscribes to a/b" in lonely.errors()


def test_endpoint_reads_lines_and_shows_lines(environment: dict[str, str]) -> None:
    listener = [sys.executable, "-m", "glue.cmd.endpoint", "--subscribe", "#", "--count", "2"]
    publisher = [sys.executable, "-m", "glue.cmd.endpoint", "--lines", "--wait", str(TIMEOUT)]
    lines = 'a/b {"x": 1}\na/c two words\n'
    with subprocess.Popen(listener, stdout=subprocess.PIPE, text=True, env=environment) as listening:
        try:
            subprocess.run(publisher, input=lines, text=True, env=environment, check=True, timeout=TIMEOUT)
            assert listening.communicate(timeout=TIMEOUT)[0] == lines
        finally:
            listening.kill()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("name", LONG_RUNNING)
def test_a_signal_ends_a_command_cleanly(start: Start, name: str, ending: signal.Signals) -> None:
    command = start(name, *LISTENING.get(name, ()))
    command.expect("chosen" if name == "network" else "started")
    command.process.send_signal(ending)
    assert command.finish() == 0
    assert command.errors() == ""


@pytest.mark.parametrize("name", LONG_RUNNING)
def test_a_command_ends_by_itself_after_its_duration(start: Start, name: str) -> None:
    command = start(name, "--duration", "0.2", *LISTENING.get(name, ()))
    assert command.finish() == 0
    assert command.errors() == ""


@pytest.mark.parametrize("words", [("topics", "--send-messages", "--rate", "50"), ("simulate", "--trace")])
def test_a_reader_that_has_seen_enough_ends_a_command_quietly(
    words: tuple[str, ...], environment: dict[str, str]
) -> None:
    command = [sys.executable, "-m", f"glue.cmd.{words[0]}", *words[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            process.stdout.readline()
            process.stdout.close()
            assert process.wait(TIMEOUT) == 0
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_people_see_a_summary_without_colours_in_a_pipe(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "glue.cmd.topics", "--send-messages", "--count", "2", "--rate", "0"]
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIMEOUT, check=True).stdout
    assert "message 2 from" in shown
    assert "missing" in shown
    assert "\x1b" not in shown


def test_the_demo_succeeds_and_leaves_no_process(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "glue.cmd.demo"]
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True).stdout
    assert "each of 4 endpoints received all 100 messages" in shown
    assert "\x1b" not in shown


def test_an_interrupted_demo_ends_its_processes(start: Start) -> None:
    demo = start("demo")
    children: set[str] = set()
    while len(children) < 4:
        children.add(demo.expect("line")["process"])
    children_of = Path(f"/proc/{demo.process.pid}/task/{demo.process.pid}/children")
    processes = [int(pid) for pid in children_of.read_text().split()]
    demo.process.send_signal(signal.SIGINT)
    assert demo.finish() == 1
    assert len(processes) == 4
    for pid in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("command", ["topics --duration 0.1", "endpoint --lines --wait 0"])
def test_closed_standard_streams_are_no_mistake(command: str) -> None:
    shell = f"{sys.executable} -m glue.cmd.{command} <&- >&-"
    ended = subprocess.run(
        shell, shell=True, env={**os.environ, **loopback_environment()}, stderr=subprocess.PIPE, timeout=TIMEOUT
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
