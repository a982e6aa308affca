"""How every command starts, waits, ends, and explains what went wrong."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from glue.cmd import common, logs, service
from glue.cmd.output import CommandOutput
from glue.errors import (
    ConfigurationError,
    GlueError,
    MessageTooLargeError,
    MissingExtraError,
    PayloadError,
    PortInUseError,
    TopicError,
)
from tests.cmd.prepared import Time

Capture = pytest.CaptureFixture[str]


@contextmanager
def handlers_kept() -> Iterator[dict[int, Any]]:
    """Put the handlers of the ending signals back after the block."""
    before = {int(number): signal.getsignal(number) for number in common.ENDING_SIGNALS}
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        common._ending.asked = False


def executed(run: common.Run, *words: str, version: int = 1) -> int:
    try:
        return common.execute(common.common_parser("thing", "Does a thing."), run, words, version)
    finally:
        logs.end()


@pytest.mark.parametrize(("error", "code", "told"), [
    (ConfigurationError("wrong  thing"), 2, "wrong thing"),
    (MissingExtraError("needs x"), 2, "needs x"),
    (PayloadError("no payload"), 2, "no payload"),
    (PortInUseError(98, "the port is taken"), 2, "the port is taken"),
    (TopicError("bad\ntopic"), 2, "bad topic"),
    (MessageTooLargeError("too large"), 1, "too large"),
    (GlueError("it failed"), 1, "it failed"),
    (OSError(2, "No such file", "a.pcap"), 1, "a.pcap: No such file"),
    (OSError(1, "Not permitted"), 1, "Not permitted"),
    (OSError("only words"), 1, "only words"),
])  # fmt: skip
def test_an_error_is_one_line_and_an_exit_code(error: Exception, code: int, told: str, capsys: Capture) -> None:
    def run(arguments: Namespace, output: CommandOutput) -> int:
        raise error

    assert executed(run) == code
    assert capsys.readouterr().err == f"glue thing: {told}\n"


def test_a_bug_is_no_mistake_of_the_caller() -> None:
    def run(arguments: Namespace, output: CommandOutput) -> int:
        raise ZeroDivisionError

    with handlers_kept() as before, pytest.raises(ZeroDivisionError):
        executed(run)
    assert {int(number): signal.getsignal(number) for number in common.ENDING_SIGNALS} == before


def test_a_command_returns_its_code_and_its_events_have_its_form(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[Any] = []
    monkeypatch.setattr(
        logs, "begin", lambda prog, arguments: logged.append((prog, getattr(arguments, "log_level", "")))
    )

    def run(arguments: Namespace, output: CommandOutput) -> int:
        output.event("done", "it is done", seconds=arguments.duration)
        return 7

    assert executed(run, "--json", "--duration", "2", version=3) == 7
    assert json.loads(capsys.readouterr().out) == {"glue": "thing", "format": 3, "event": "done", "seconds": 2.0}
    assert executed(run) == 7
    assert capsys.readouterr().out == "it is done\n"
    assert logged == [("glue thing", "warning")] * 2
    without = common.Parser(prog="glue small")
    assert common.execute(without, lambda arguments, output: output.event("x", "a line") or 4, []) == 4  # type: ignore[func-returns-value]
    assert capsys.readouterr().out == "a line\n"


def test_what_a_setting_is_called_on_the_command_line() -> None:
    given = Namespace(interface="en9", network_id=None, endpoint_name="x", multicast_address="y", file="z")
    told = {
        "interface='en9': there is none": "--interface 'en9': there is none",
        "network_id=7: too large": "network_id=7: too large",
        "name='x': taken": "--endpoint-name 'x': taken",
        "multicast_address='y': wrong": "--multicast-address 'y': wrong",
        "file=z: what": "file=z: what",
        "interface": "interface",
    }
    assert {text: common.explained(ConfigurationError(text), given) for text in told} == told


def test_every_option_of_the_network_becomes_its_setting() -> None:
    parser = common.common_parser("thing", "Does a thing.")
    values = {option: f"{setting}-1" for setting, option in common.OPTIONS.items() if option != "discovery"}
    words = [f"--{option.replace('_', '-')}={value}" for option, value in values.items()]
    words = [word for word in words if not word.startswith(("--listen-port", "--network-id"))]
    given = parser.parse_args([*words, "--listen-port", "5", "--network-id", "6", "--interface", "b"])
    assert common.settings_from(given) == {
        "interface": "interface-1,b", "multicast_address": "multicast_address-1", "listen_port": 5,
        "peers": ["peers-1"], "name": "name-1", "network_id": 6, "key": "key-1", "identity": "identity-1",
        "policy": "policy-1", "storage_key": "storage_key-1",
    }  # fmt: skip


def test_a_wrong_option_may_be_a_near_miss(capsys: Capture) -> None:
    parser = common.common_parser("thing", "Does a thing.")
    told = {
        "--endpont-name=x": "unrecognized arguments: --endpont-name=x; did you mean --endpoint-name?",
        "--durations": "unrecognized arguments: --durations; did you mean --duration?",
        "-jsn": "unrecognized arguments: -jsn; did you mean --json?",
        "what": "unrecognized arguments: what",
        "--dur": "unrecognized arguments: --dur",
    }
    for word, expected in told.items():
        with pytest.raises(SystemExit) as ended:
            parser.parse_args([word])
        assert ended.value.code == 2
        assert capsys.readouterr().err == f"glue thing: {expected} (see glue thing --help)\n"


@pytest.mark.parametrize(("parse", "taken", "refused"), [
    (common.port_number, {"0": 0, "65535": 65535}, {"-1": "-1: expected a port, 0 to 65535", "65536": "65536: expected",
                                                    "x": "'x': expected a port, 0 to 65535"}),
    (common.rounds, {"0": 0, "7": 7}, {"-1": "-1 is out of range", "1.5": "'1.5': expected a whole number"}),
    (common.size, {"1B": 1, "5k": 5000, "5MB": 5 * 10**6, "12G": 12 * 10**9},
     {"kB": "'kB': expected bytes, such as 100kB", "1T": "'1T': expected bytes", "": "expected"}),
    (common.rate, {"1e9": 1e9}, {"fast": "'fast': expected a number", "nan": "out of range"}),
])  # fmt: skip
def test_numbers_have_a_range(parse: Any, taken: dict[str, int], refused: dict[str, str]) -> None:
    assert {text: parse(text) for text in taken} == taken
    for text, told in refused.items():
        with pytest.raises(ArgumentTypeError) as wrong:
            parse(text)
        assert told in str(wrong.value)


def test_streams_that_the_caller_closed_are_the_null_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    common.prepare_streams()
    streams = [sys.stdin, sys.stdout, sys.stderr]
    assert [(stream.name, stream.mode) for stream in streams] == [
        (os.devnull, "r"), (os.devnull, "w"), (os.devnull, "w"),
    ]  # fmt: skip
    for stream in streams:
        stream.close()
    ascii_only = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), "ascii"))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    common.prepare_streams()
    assert (ascii_only.errors, sys.stdin.errors) == ("backslashreplace", "strict")


def test_a_signal_ends_a_command_where_it_waits_and_a_second_one_kills() -> None:
    def run(arguments: Namespace, output: CommandOutput) -> int:
        ending = [common.is_ending()]
        signal.raise_signal(signal.SIGTERM)  # not waiting: only noted
        assert [*ending, common.is_ending()] == [False, True]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) not in (signal.SIG_DFL, signal.default_int_handler)
        with pytest.raises(common.Ended):
            common.check()
        common.wait_for_end()
        raise AssertionError("it went on")

    with handlers_kept() as before:
        common._ending.asked = True  # an earlier command of this process was ended
        assert executed(run) == 0
        assert {int(number): signal.getsignal(number) for number in common.ENDING_SIGNALS} == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGALRM])
def test_a_signal_interrupts_what_only_waits(number: signal.Signals) -> None:
    went: list[str] = []

    def run(arguments: Namespace, output: CommandOutput) -> int:
        with common.until_ended(None), common.waiting():
            went.append("waits")
            signal.raise_signal(number)
            went.append("went on")
        ends_by_default = signal.getsignal(number) is signal.SIG_DFL
        assert ends_by_default == (number == signal.SIGINT), "the timer may come again"
        return 3

    with handlers_kept():
        assert executed(run) == 3
    assert went == ["waits"]
    assert not common._ending.waiting


def test_a_duration_is_a_timer_and_the_service_manager_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(signal, "setitimer", lambda which, seconds: told.append((which, seconds)))
    monkeypatch.setattr(service, "tell", told.append)
    for duration in (2.5, None):
        with common.until_ended(duration):
            told.append("block")
    with pytest.raises(KeyError), common.until_ended(1.0):
        raise KeyError
    timer = signal.ITIMER_REAL
    ending = [(timer, 0), "STOPPING=1"]
    assert told == [
        (timer, 2.5), "READY=1", "block", *ending, (timer, 0), "READY=1", "block", *ending,
        (timer, 1.0), "READY=1", *ending,
    ]  # fmt: skip


def test_any_thread_can_end_the_command() -> None:
    went: list[str] = []

    def run(arguments: Namespace, output: CommandOutput) -> int:
        with common.until_ended(None):
            asking = threading.Thread(target=common.request_end)
            asking.start()
            asking.join()
            common.pause(30.0)
            went.append("went on")
        return 5

    with handlers_kept():
        assert executed(run) == 5
    assert went == []


def test_waiting_takes_naps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    monkeypatch.setattr(common, "time", clock)
    common.pause(0.5)
    assert clock.naps == [0.2, 0.2, 0.1]
    common.pause(-1.0)
    assert clock.now == 1000.5
    asked: list[float] = []

    def condition(seconds: float) -> bool:
        asked.append(round(seconds, 6))
        clock.now += seconds
        return False

    assert not common.wait_for(condition, 0.5)
    assert asked == [0.2, 0.2, 0.1]
    assert not common.wait_for(condition, 0.0)
    assert common.wait_for(lambda seconds: True, 0.0)
    del asked[:]
    common._ending.asked = True
    try:
        with pytest.raises(common.Ended):
            common.wait_for(condition)
    finally:
        common._ending.asked = False
    assert asked == [0.2]


def test_messages_leave_at_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    monkeypatch.setattr(common, "time", clock)
    left = [(number, clock.now - 1000.0) for number in common.paced(4.0, 3)]
    assert left == [(1, 0.0), (2, 0.25), (3, 0.5)]
    assert list(common.paced(0.0, 0)) == []
    endless = common.paced(0.0, None)
    assert [next(endless) for _ in range(3)] == [1, 2, 3]
    common._ending.asked = True
    try:
        with pytest.raises(common.Ended):
            next(endless)
    finally:
        common._ending.asked = False


def test_an_answer_that_never_came_is_a_failure(capsys: Capture) -> None:
    assert common.ended_early("thing") == 1
    assert capsys.readouterr().err == "glue thing: ended before there was an answer\n"
