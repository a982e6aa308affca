"""The lines of `glue topics`, `transport` and `network`, and what they send."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.cmd import (
    common,
    key,
    network,
    session,
    topics,
    traffic,
    transport,
)
from glue.cmd.output import CommandOutput
from glue.cmd.tally import Tally
from glue.contract import Train
from glue.errors import ConfigurationError
from glue.network import Interface
from glue.settings import effective
from tests.cmd.prepared import Calls, Time, message, noting, people, programs


def test_a_message_of_a_topic_is_a_line() -> None:
    line = topics.message_line(message("on", 12, retained=True))
    assert line == f"{'hall':24} home/lamp #12    on  (retained)"
    assert topics.message_line(message({"a": 1})) == f"{'hall':24} home/lamp #1     " + '{"a": 1}'


def test_programs_get_all_of_a_message() -> None:
    (told,) = programs(lambda output: session.report_message(output, message(b"\xff", 3, type="t"), "x", more=1))
    assert told == {
        "event": "message", "publisher": "hall", "publisher_id": "h1", "incarnation": 1, "topic": "home/lamp",
        "sequence": 3, "type": "t", "published_at": 1.5, "retained": False, "payload": "/w==",
        "payload_encoding": "base64", "more": 1,
    }  # fmt: skip


def test_transport_tells_the_rate_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    monkeypatch.setattr(transport, "time", clock)

    def receive(output: CommandOutput) -> None:
        progress = transport.MessageProgress(output)
        for number, pause in enumerate((0.0, 0.5, 0.5, 0.1, 0.9, 1.0), 1):
            clock.now += pause
            progress.add(message(b"x" * 500_000, number))

    assert people(receive).splitlines() == [
        "3 messages/s  1.50 MB/s  in order to #3",
        "2 messages/s  0.79 MB/s  in order to #6",
    ]
    events = [one for one in programs(receive) if one["event"] == "progress"]
    assert [(one["messages"], one["bytes"], round(one["seconds"], 3)) for one in events] == [
        (3, 1_500_000, 1.0), (3, 1_500_000, 1.9),
    ]  # fmt: skip


def sent(*words: str, **answers: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    given = traffic.traffic_parser("x", "X.", "demo", rate=1.0).parse_args([*words])
    there: Any = Calls(**{"flush": True, "wait_for_subscribers": True, **answers})
    there.settings, there.name = SimpleNamespace(message_limit=1000), "me"
    events = programs(lambda output: traffic.send(there, given, output, retain="--size" not in words))
    return there.calls, events


def test_numbered_messages_are_sent_after_others_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    monkeypatch.setattr(common, "pause", paused.append)
    calls, events = sent("--count", "2", "--rate", "0", "--priority", "urgent")
    assert paused == [1.0]
    options = {"retain": True, "priority": "urgent", "block": False}
    assert calls[:2] == [("publish", "demo", f"message {number} from me", options) for number in (1, 2)]
    assert calls[2][0] == "flush"
    assert events == [{"event": "sent", "topic": "demo", "number": number} for number in (1, 2)]
    calls, _ = sent("--count", "1", "--rate", "0", "--wait-for", "3", "--topic", "t", "--size", "1000")
    assert calls[0][:3] == ("wait_for_subscribers", "t", 3)
    assert (len(calls[1][2]), calls[1][3]["retain"]) == (1000, False)
    assert paused == [1.0]
    with pytest.raises(ConfigurationError, match="--size 1001: message_limit is 1000 bytes"):
        sent("--size", "1001")


def test_own_messages_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    monkeypatch.setattr(traffic, "time", clock)
    monkeypatch.setattr(common, "pause", clock.sleep)
    there: Any = SimpleNamespace(id="h1")
    tally = Tally()
    tally.add(message("x"))
    traffic.await_own(there, 1, tally)
    assert clock.naps == []
    traffic.await_own(there, 2, tally)
    assert 999 <= len(clock.naps) <= 1001


def test_an_exchange_ends_with_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    there: Any = Calls()
    there.statistics, there.id = {"x": {}}, "h1"

    def subscribe(topic: str, receive: Any) -> None:
        waited.append(topic)
        for number in (1, 3):
            receive(message("x", number))

    there._answers["subscribe"] = subscribe
    monkeypatch.setattr(traffic, "open_endpoint", lambda *_: nullcontext(there))
    monkeypatch.setattr(traffic, "send", lambda *given: waited.append(f"send {given[-1]}"))
    monkeypatch.setattr(common, "wait_for_end", lambda: waited.append("end"))
    shown: list[Any] = []

    def run(*words: str) -> Any:
        given = traffic.traffic_parser("x", "X.", "demo", rate=1.0).parse_args([*words])
        return people(lambda output: traffic.exchange(given, output, shown.append, True))

    lines = run().splitlines()
    assert lines[0] == "! hall gap: 1 missing before #3"
    assert lines[1:3] == ["", "publisher  topic      received  first  last  missing  repeated  retained"]
    assert waited == ["demo", "end"]
    assert [one.sequence for one in shown] == [1, 3]
    run("--send-messages", "--count", "2", "--topic", "t")
    assert waited[2:] == ["t", "send True"]
    run("--send-messages", "--count", "2", "--duration", "9")
    assert waited[4:] == ["demo", "send True", "end"]
    with pytest.raises(glue.TopicError):
        run("--send-messages", "--topic", "a/#")
    assert run("--topic", "a/#")


class Group:
    """A network on which these trains come, one at a time."""

    datagram_size = 30

    def __init__(self, clock: Time, *trains: Train) -> None:
        self._clock = clock
        self._trains = [*trains]
        self.sent: list[bytes] = []
        self.waits: list[float] = []
        self.kept: list[float] = []

    def maintain(self, now: float) -> float:
        self.kept.append(round(now - 1000.0, 3))
        return now + 0.5

    def wait(self, seconds: float) -> None:
        self.waits.append(round(seconds, 3))
        self._clock.now += seconds

    def receive(self) -> list[Train]:
        return [self._trains.pop(0)] if self._trains else []

    def send(self, trains: list[Train]) -> None:
        (train,) = trains
        assert train.segment == len(train.data)
        self.sent.append(bytes(train.data))


def test_datagrams_are_sent_at_their_rate_and_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    monkeypatch.setattr(network, "time", clock)
    group: Any = Group(clock, Train(("10.0.0.2", 7), b"aabbc", 2), Train(("10.0.0.3", 7), b"\xff", 9))
    seal: Any = SimpleNamespace(overhead=4, sealed=lambda payload: payload + b"!", opened=lambda one: (one, "plain: "))
    given = network.parser().parse_args(["--count", "2", "--rate", "4"])

    def say(output: CommandOutput) -> None:
        output.endpoint = "a long name of mine"
        network.send(group, seal, given, output)

    assert people(say).splitlines() == [
        f"{'10.0.0.2:7':24}     2 bytes  plain: aa", f"{'10.0.0.2:7':24}     2 bytes  plain: bb",
        f"{'10.0.0.2:7':24}     1 bytes  plain: c", f"{'10.0.0.3:7':24}     1 bytes  plain: ff",
    ]  # fmt: skip
    assert group.sent == [b"datagram 1 from a long nam!", b"datagram 2 from a long nam!"]
    assert group.waits == [0.2, 0.05, 0.2, 0.05]
    assert clock.now == 1000.5
    group._trains = [Train(("10.0.0.2", 7), b"x", 1)]
    (event,) = programs(lambda output: network.listen(group, seal, output, 0.0))
    assert event == {
        "event": "datagram",
        "address": "10.0.0.2:7",
        "size": 1,
        "payload": "x",
        "payload_encoding": "utf-8",
    }
    assert group.waits[4:] == [0.0]
    group.kept.clear()
    people(lambda output: network.listen(group, seal, output, 1001.8))
    assert group.kept == [0.5, 1.0, 1.5]


def test_interfaces_are_a_table_with_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [
        Interface("lo", 1, ipv4=("127.0.0.1",), loopback=True, mtu=65536), Interface("veth", 3, up=False, virtual=True),
        Interface("eth0", 2, ipv4=("10.0.0.1",), ipv6=("fe80::1",)),
    ]  # fmt: skip
    monkeypatch.setattr(network, "list_interfaces", lambda: cards)
    monkeypatch.setattr(network, "chosen", lambda settings: ("eth0,veth", "they are good"))
    settings: Any = None
    assert people(lambda output: network.report_interfaces(settings, output)).splitlines() == [
        "interface  state  kind        mtu  addresses",
        "lo         up     loopback  65536  127.0.0.1",
        "veth       down   virtual    1500",
        "eth0       up     hardware   1500  10.0.0.1 fe80::1",
        "",
        "chosen: they are good",
    ]
    events = programs(lambda output: network.report_interfaces(settings, output))
    assert [(one["interface"], one["state"], one["kind"], one["chosen"]) for one in events[:-1]] == [
        ("lo", "up", "loopback", False), ("veth", "down", "virtual", True), ("eth0", "up", "hardware", True),
    ]  # fmt: skip
    assert events[-1] == {"event": "chosen", "interface": "eth0,veth", "reason": "they are good"}


@pytest.mark.parametrize(("words", "did"), [
    ("", []), ("--listen", ["listen inf"]), ("--duration 9", ["listen inf"]), ("--send-messages", ["send"]),
    ("--send-messages --duration 9", ["send", "listen inf"]), ("--listen --duration 9", ["listen inf"]),
    ("--send-messages --listen", ["send"]),
])  # fmt: skip
def test_bare_datagrams_are_sent_and_shown_as_the_options_say(
    words: str, did: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done, made, network_id = list[str](), list[Any](), 7
    group = SimpleNamespace(close=lambda: done.append("close"))

    def send(net: Any, seal: Any, arguments: Any, output: Any) -> None:
        assert (net, type(seal), arguments.rate, output.endpoint) == (group, network.Seal, 1.0, "me")
        done.append("send")

    def listen(net: Any, seal: Any, output: Any, end: float) -> None:
        assert (net, type(seal), output.endpoint) == (group, network.Seal, "me")
        done.append(f"listen {end}")

    monkeypatch.setattr(network, "MulticastNetwork", noting(made, group))
    monkeypatch.setattr(network, "list_interfaces", lambda: [Interface("lo", 1, ipv4=("127.0.0.1",), loopback=True)])
    monkeypatch.setattr(network, "send", send)
    monkeypatch.setattr(network, "listen", listen)
    options = ["--interface", "lo", "--endpoint-name", "me", "--network-id", str(network_id), "--listen-port", "5000"]
    assert network.main([*words.split(), *options, "--multicast-address", "239.1.1.1:777"]) == 0
    assert done == [*did, *(["close"] if did else [])]
    given = {"interface": "lo", "multicast_address": "239.1.1.1:777", "listen_port": 5000}
    defaults = effective({})
    buffers = {"receive_buffer": defaults.receive_buffer, "offload": defaults.offload}
    assert made == ([{**given, **buffers}] if did else [])
    assert capsys.readouterr().out.splitlines()[-1] == "chosen: lo, as asked for"


def test_the_name_and_the_interface_of_bare_datagrams_are_chosen_if_they_are_not_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Any] = []
    group = SimpleNamespace(close=lambda: made.append("close"))
    monkeypatch.setattr(network, "MulticastNetwork", noting(made, group))
    monkeypatch.setattr(network, "chosen", lambda settings: ("eth0", "it is good"))
    monkeypatch.setattr(network, "listen", lambda *given: made.append(given[2].endpoint))
    monkeypatch.setattr("socket.gethostname", lambda: "box")
    monkeypatch.setattr("os.getpid", lambda: 77)
    assert network.main(["--listen"]) == 0
    assert (made[0]["interface"], made[1:]) == (None, ["box-77", "close"])

    def fail(*_: Any) -> None:
        raise OSError(100, "Network is down")

    with monkeypatch.context() as patch:
        patch.setattr(network, "listen", fail)
        made.clear()
        assert network.main(["--listen"]) == 1
    assert (made[1:], capsys.readouterr().err) == (["close"], "glue network: Network is down\n")
    for option in ("identity", "policy", "storage-key"):
        assert network.main([f"--{option}", "x"]) == 2
        told = f"glue network: --{option} has no effect on bare datagrams; leave it out, or use glue endpoint\n"
        assert capsys.readouterr().err == told


def test_what_a_key_does_to_bare_datagrams(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert key.main(["new", str(tmp_path / name)]) == 0
    plain, one, two = (
        network.Seal(effective({"network_id": 7, **({"key": str(tmp_path / name)} if name else {})}))
        for name in ("", "one", "two")
    )
    assert (plain.sealed(b"x"), plain.overhead) == (b"x", 0)
    sealed = one.sealed(b"hello")
    assert len(sealed) == 5 + one.overhead
    assert one.opened(sealed) == (b"hello", "sealed: ")
    assert plain.opened(b"hello") == (b"hello", "")
    assert one.opened(b"hello") == (b"hello", "not sealed: ")
    payload, told = plain.opened(sealed)
    assert payload == sealed
    assert told == f"sealed with a key, id {sealed[1]:02x}, network 7, number 0: "
    assert two.opened(sealed)[1] == f"sealed with another key, id {sealed[1]:02x}, network 7, number 0: "
    later = [one.sealed(b"x") for _ in range(2)][-1]
    assert plain.opened(later)[1].endswith("number 2: ")
