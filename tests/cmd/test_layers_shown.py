"""What `glue discovery`, `fragmentation`, `transport` and `topics` tell at a prepared endpoint, and publish."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from glue import Peer
from glue.cmd import common, discovery, fragmentation, topics, traffic, transport
from glue.cmd.output import CommandOutput
from tests.cmd.prepared import Calls, message

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An endpoint that has received these messages, for commands that then end."""
    endpoint: Any = Calls(flush=True, wait_for_subscribers=True)
    endpoint.name, endpoint.id, endpoint.messages = "me", "h1", []
    endpoint.settings = SimpleNamespace(message_limit=10_000)
    endpoint.statistics = {layer: {"frames": 1_234, "zero": 0} for layer in ("fragmentation", "transport")}
    endpoint._answers["subscribe"] = lambda topic, receive: [receive(one) for one in endpoint.messages]
    monkeypatch.setattr(traffic, "open_endpoint", lambda arguments, output: nullcontext(endpoint))
    monkeypatch.setattr(discovery, "open_endpoint", lambda arguments, output: nullcontext(endpoint))
    monkeypatch.setattr(common, "wait_for_end", lambda: None)
    monkeypatch.setattr(common, "pause", lambda seconds: None)
    return endpoint


def test_large_messages_are_whole_or_a_failure(there: Any, capsys: Capture) -> None:
    whole = traffic.numbered("hall", 7, 1_500)
    there.messages = [message(whole, 7)]
    assert fragmentation.main([]) == 0
    line, *rest = capsys.readouterr().out.splitlines()
    assert line == f"{'hall':24} #7             1,500 bytes  whole"
    assert rest[-2:] == ["fragmentation counted", "  frames  1,234"]
    assert [call[:2] for call in there.calls] == [("subscribe", "glue/fragmentation")]
    there.messages = [message(whole, 7), message(b"x" * 50, 8), message("text", 9)]
    assert fragmentation.main([]) == 1
    assert [line[-9:] for line in capsys.readouterr().out.splitlines()[:3]] == ["es  whole", "  DAMAGED", "  DAMAGED"]
    assert fragmentation.main(["--json"]) == 1
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["size"], one["intact"]) for one in told if one["event"] == "message"] == [
        (1_500, True), (50, False), (6, False),
    ]  # fmt: skip


def test_small_messages_are_told_to_programs_and_the_counts_to_people(there: Any, capsys: Capture) -> None:
    there.messages = [message(traffic.numbered("hall", 1, 100), 1), message(b"x", 2)]
    assert transport.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "", "publisher  topic      received  first  last  missing  repeated  retained",
        "hall       home/lamp         2      1     2        0         0         0", "", "transport counted",
        "  frames  1,234",
    ]  # fmt: skip
    assert transport.main(["--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["event"] for one in told] == ["message", "message", "received", "statistics"]
    assert [one["intact"] for one in told[:2]] == [True, False]
    assert (told[2]["streams"][0]["received"], told[3]["layer"]) == (2, "transport")
    assert there.calls[0][1] == "glue/transport"


def test_messages_of_a_topic_are_shown_and_what_is_wrong_with_their_numbers(there: Any, capsys: Capture) -> None:
    there.messages = [message("on", 1), message("off", 4)]
    assert topics.main(["--topic", "home/#"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        f"{'hall':24} home/lamp #1     on", "! hall gap: 2 missing before #4", f"{'hall':24} home/lamp #4     off",
    ]  # fmt: skip
    assert topics.main(["--topic", "home/#", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["event"] for one in told] == ["message", "trouble", "message", "received"]
    assert {name: told[1][name] for name in ("publisher", "topic", "trouble")} == {
        "publisher": "hall", "topic": "home/lamp", "trouble": "gap: 2 missing before #4",
    }  # fmt: skip


@pytest.mark.parametrize(("command", "words", "payload", "retain"), [
    (topics, [], "message 1 from me", False), (topics, ["--retain"], "message 1 from me", True),
    (transport, [], traffic.numbered("me", 1, 100), False),
    (fragmentation, ["--size", "2kB"], traffic.numbered("me", 1, 2_000), False),
])  # fmt: skip
def test_numbered_messages_are_published_and_waited_for(
    command: Any, words: list[str], payload: Any, retain: bool, there: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, awaited = list[Any](), list[Any]()

    def progress(output: CommandOutput, what: str, seconds: float = 0.0) -> Any:
        shown.append((what, seconds))
        return nullcontext()

    monkeypatch.setattr(CommandOutput, "progress", progress)
    monkeypatch.setattr(traffic, "await_own", lambda endpoint, count, tally: awaited.append((endpoint, count)))
    sending = ["--send-messages", "--count", "1", "--rate", "0", "--topic", "t", "--wait-for", "3"]
    assert command.main([*sending, *words]) == 0
    options = {"retain": retain, "priority": "normal", "block": False}
    wait = ("wait_for_subscribers", "t", 3, common.NAP)
    assert there.calls[1:] == [wait, ("publish", "t", payload, options), ("flush", common.NAP)]
    assert awaited == [(there, 1)]
    assert shown == [("waiting for 3 subscribers", 0.0), ("waiting for acknowledgements", 10.0)]


def test_the_peers_that_are_there_are_listed_at_the_end(
    there: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    there.peers = []
    found = [Peer("kitchen", "k0", 3, ("10.0.0.2", 7)), Peer("attic", "a0", 12, ("fe80::1", 8, 0, 2))]
    monkeypatch.setattr(common, "wait_for_end", lambda: there.peers.extend(found))
    assert discovery.main([]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "", "peer     id  address      incarnation", "attic    a0  [fe80::1]:8           12",
        "kitchen  k0  10.0.0.2:7             3",
    ]  # fmt: skip
    assert discovery.main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["event"], told["peers"][0]) == (
        "peers", {"peer": "attic", "id": "a0", "address": "[fe80::1]:8", "incarnation": 12},
    )  # fmt: skip
    found[:], there.peers = [Peer("x" * 41, "x0", 1, ("10.0.0.2", 7))], []
    assert discovery.main([]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("x" * 39 + "…  x0")
    found[:], there.peers = [], []
    assert discovery.main([]) == 0
    assert capsys.readouterr().out == "\nno peers\n"
