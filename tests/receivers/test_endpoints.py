"""Receivers of threaded endpoints, over real sockets on loopback."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import glue
from glue.cmd import receivers as command
from glue.endpoint.receiver_hosts import BEAT_TOPIC
from glue.receivers.wire import at_topic, encode
from tests.support.lan import PATIENCE, Ear, Lan


class Account(glue.Receiver):
    """Keeps a sum."""

    on_error = "park"

    def receive(self, context: glue.Context, message: Any) -> Any:
        match message:
            case {"add": number}:
                context.state["sum"] = context.state.get("sum", 0) + number
                return context.state["sum"]
            case "get":
                return context.state.get("sum", 0)
            case {"relay": to, "payload": payload}:
                return context.request(to, payload, timeout=PATIENCE)
            case {"after": seconds}:
                context.after(seconds, {"add": 100}, durable=True)
            case "fail":
                raise ValueError("no")
        return None


@pytest.fixture
def hosts(lan: Lan) -> tuple[glue.Endpoint, glue.Endpoint, glue.Endpoint]:
    """Two hosts of "account", and a caller that is no member of the model."""
    a, b = lan.pair()
    for host in (a, b):
        host.receivers(
            "account", Account, model=host.model("plant", voters=2, election_timeout=0.1), dead_letters="dead/account"
        )
    return a, b, lan.start("c")


def alone(host: glue.Endpoint) -> glue.Model:
    """A model with one voter."""
    return host.model("plant", voters=1, election_timeout=0.1)


Hosts = tuple[glue.Endpoint, glue.Endpoint, glue.Endpoint]


def test_each_endpoint_reaches_each_receiver(hosts: Hosts) -> None:
    for number, endpoint in enumerate(hosts):
        for id in "xyz":
            assert endpoint.ask(f"account/{id}", {"add": 1}, PATIENCE) == number + 1


def test_messages_of_a_sender_arrive_once_and_in_order(lan: Lan) -> None:
    a, c = lan.pair()
    seen: list[int] = []
    a.receivers("list", lambda context, message: seen.append(message), model=alone(a))
    for number in range(500):
        c.send("list/1", number)
    assert c.ask("list/1", 500, PATIENCE) is None
    assert seen == list(range(501))


def test_increments_of_many_threads_are_all_counted(lan: Lan) -> None:
    a, b = lan.pair()
    total = [0]

    def count(context: glue.Context, message: Any) -> Any:
        before = total[0]
        total[0] = before + 1
        return total[0]

    a.receivers("count", count, model=alone(a)).wait_until_served(PATIENCE)

    def add(endpoint: glue.Endpoint) -> None:
        for _ in range(1000):
            endpoint.send("count/1", None)
        assert endpoint.ask("count/1", None, PATIENCE) is not None

    threads = [threading.Thread(target=add, args=(endpoint,)) for endpoint in (a, a, b, b)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert a.ask("count/1", None, PATIENCE) == 4005


def test_the_state_is_there_after_a_host_has_left(hosts: Hosts) -> None:
    a, _, c = hosts
    ids = [f"account/{number}" for number in range(8)]
    assert [c.ask(id, {"add": 5}, PATIENCE) for id in ids] == [5] * 8
    assert a._receiving is not None
    (kind,) = a._receiving.runtime.kinds.values()
    assert kind.ownership.all_owned
    assert a.close_receivers(PATIENCE)
    assert kind.ownership.all_owned == [], "each partition was handed over"
    assert [c.ask(id, "get", PATIENCE) for id in ids] == [5] * 8


def test_an_exception_is_told_counted_and_parked(hosts: Hosts) -> None:
    a, b, c = hosts
    letters = Ear()
    c.subscribe("dead/#", letters)
    for host in (a, b):
        assert host.wait_for_subscribers("dead/account", 1, PATIENCE)
    for endpoint in hosts:
        with pytest.raises(glue.RemoteError, match="account/x: ValueError: no"):
            endpoint.ask("account/x", "fail", PATIENCE)
    letters.wait(3)
    assert letters.heard[0].payload["receiver"] == "account/x"


def test_a_receiver_asks_another_and_a_cycle_is_named(hosts: Hosts) -> None:
    _, _, c = hosts
    assert c.ask("account/y", {"add": 7}, PATIENCE) == 7
    assert c.ask("account/x", {"relay": "account/y", "payload": "get"}, PATIENCE) == 7
    cycle = {"relay": "account/y", "payload": {"relay": "account/x", "payload": "get"}}
    with pytest.raises(glue.RequestError, match="account/x → account/y → account/x"):
        c.ask("account/x", cycle, PATIENCE)


def test_idle_receivers_are_put_away(lan: Lan) -> None:
    a = lan.start("a")
    ended = threading.Event()

    class Short(glue.Receiver):
        idle = 0.0

        def receive(self, context: glue.Context, message: Any) -> Any:
            return message

        def deactivate(self, context: glue.Context) -> None:
            ended.set()

    kind = a.receivers("short", Short, model=alone(a))
    assert a.ask("short/1", 1, PATIENCE) == 1
    assert ended.wait(PATIENCE)
    assert a._running().wait_until(lambda: kind.active == 0, PATIENCE)


def test_a_wrong_call_raises_and_says_what_is_expected(lan: Lan) -> None:
    a = lan.start("a")

    async def receive(context: Any, message: Any) -> None:
        pass

    for factory, words in ((receive, "glue.aio"), (3, "a class with receive"), (dict, "no method receive")):
        with pytest.raises(glue.ConfigurationError, match=words):
            a.receivers("k", factory)  # type: ignore[arg-type]
    with pytest.raises(glue.ConfigurationError, match="partitions"):
        a.receivers("k", Account, partitions=0)
    with pytest.raises(glue.ConfigurationError, match="store"):
        a.receivers("k", Account, store="nowhere:x")
    with pytest.raises(glue.TopicError):
        a.receivers("k", Account, dead_letters="dead/#")
    a.receivers("k", Account)
    with pytest.raises(glue.ConfigurationError, match="already"):
        a.receivers("k", Account)
    with pytest.raises(glue.ConfigurationError, match="address"):
        a.send("nothing", 1)
    with pytest.raises(glue.ConfigurationError, match="address 5: expected a text"):
        a.send(5, 1)  # type: ignore[arg-type]
    with pytest.raises(glue.ConfigurationError, match="model='plant': expected a model"):
        a.receivers("other", Account, model="plant")  # type: ignore[arg-type]
    for wrong in ({"on_error": "explode"}, {"idle": -1}):
        with pytest.raises(glue.ConfigurationError, match=next(iter(wrong))):
            a.receivers("other", type("Wrong", (Account,), wrong))
    with pytest.raises(glue.NoResponderError, match="no host of kind 'nobody'"):
        a.ask("nobody/x", 1, 0.1)


def test_a_host_with_another_number_of_partitions_is_told_and_hosts_nothing(lan: Lan) -> None:
    a, b = lan.pair()
    plant = alone(a)
    assert a.receivers("k", Account, model=plant).wait_until_served(PATIENCE)
    other = b.receivers("k", Account, model=b.model("plant", members=["a"]), partitions=32)
    with pytest.raises(glue.ConfigurationError, match="partitions=32 for receivers of kind 'k': other hosts have 64"):
        other.wait_until_served(PATIENCE)
    assert other.owned == 0


def test_what_was_sent_just_before_the_close_is_handled(lan: Lan) -> None:
    a, b = lan.pair()
    handled: list[Any] = []
    assert a.receivers("k", lambda _, message: handled.append(message), model=alone(a)).wait_until_served(PATIENCE)
    for number in range(100):
        b.send("k/1", number)
    b.close(PATIENCE)
    assert handled == [*range(100)]


def test_messages_count_as_they_are_handled(lan: Lan) -> None:
    a = lan.start("a")
    counted: list[int] = []

    def receive(context: glue.Context, message: Any) -> Any:
        counted.append(hosted.counters()["handled"])
        time.sleep(0.002)  # a slow one, which counts at once
        return True if message == "last" else None

    hosted = a.receivers("k", receive, model=alone(a))
    assert hosted.wait_until_served(PATIENCE)
    for _ in range(5):
        a.send("k/1", 1)
    assert a.ask("k/1", "last", PATIENCE)
    assert counted == [*range(counted[0], counted[0] + 6)]


def test_the_command_lists_asks_and_sends(lan: Lan, capsys: pytest.CaptureFixture[str]) -> None:
    a = lan.start("a")
    a.receivers("account", Account, model=alone(a)).wait_until_served(PATIENCE)
    network = ["--interface", str(lan.settings["interface"]), "--network-id", str(lan.settings["network_id"])]
    network += ["--multicast-address", str(lan.settings["multicast_address"])]

    def run(*words: str) -> tuple[int, str, str]:
        code = command.main([*words, *network])
        return code, *capsys.readouterr()

    assert run("account/x", '{"add": 3}')[:2] == (0, "3\n")
    assert run("account/x", '{"add": 3}', "--send")[:2] == (0, "")
    code, out, _ = run("--wait", "0.5")
    assert code == 0
    assert out.startswith("account at a: 64 of 64 partitions, 1 active, 0 waiting, 2 handled, 0 failed")
    assert run("account/x", '"fail"')[0] == 1
    assert run("account")[0] == 2


def test_state_and_durable_timers_survive_a_restart(lan: Lan, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'state.db'}"
    a = lan.start("a")
    a.receivers("account", Account, store=store, model=alone(a))
    assert a.ask("account/x", {"add": 5}, PATIENCE) == 5
    assert a.ask("account/x", {"after": 0.3}, PATIENCE) is None
    a.close(PATIENCE)
    b = lan.start("b")
    b.receivers("account", Account, store=store, model=alone(b))
    until = time.monotonic() + PATIENCE
    while b.ask("account/x", "get", PATIENCE) != 105:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_receivers_that_sleep_do_not_hold_up_the_others(lan: Lan) -> None:
    a, b = lan.pair()
    gate = threading.Event()

    def wait(context: glue.Context, message: Any) -> Any:
        return gate.wait(PATIENCE) if message == "wait" else message

    a.receivers("w", wait, model=alone(a))
    assert b.ask("w/free", 1, PATIENCE) == 1
    for number in range(6):
        b.send(f"w/{number}", "wait")
    assert b.ask("w/free", 2, PATIENCE) == 2
    gate.set()
    assert [b.ask(f"w/{number}", 3, PATIENCE) for number in range(6)] == [3] * 6


def test_a_full_mailbox_makes_the_sender_wait_and_loses_nothing(lan: Lan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.endpoint.receiver_running.MAILBOX", 8)
    monkeypatch.setattr("glue.endpoint.receiver_running.ARRIVED", 8)
    a, b = lan.pair()
    seen: list[Any] = []
    gate = threading.Event()

    def note(context: glue.Context, message: Any) -> Any:
        gate.wait(PATIENCE)
        seen.append(message)

    a.receivers("note", note, model=alone(a))
    for endpoint in (a, b):
        gate.clear()
        seen.clear()
        threading.Timer(0.1, gate.set).start()
        for number in range(50):
            endpoint.send("note/1", number)
        assert endpoint.ask("note/1", "last", PATIENCE) is None
        assert seen == [*range(50), "last"]


def test_forged_and_damaged_messages_are_counted(lan: Lan) -> None:
    a, b = lan.pair()
    a.receivers("account", Account, model=alone(a))
    assert b.ask("account/x", {"add": 1}, PATIENCE) == 1
    assert b._receiving is not None
    runtime, topic = b._receiving.runtime, at_topic(a.id)
    head = {"batch": 1, "kind": ":account", "partition": 0, "partitions": 64, "seqs": [1], "ids": ["x"]}
    for payload in (b"", b"{}\n", encode(head, b"[1"), encode({**head, "ids": [3]}, b"[1]\n"), encode(head, b"[1]\nx")):
        runtime._publish(topic, [payload])
    runtime._publish(BEAT_TOPIC, [b"no beat", encode({"kinds": 3}), encode({"kinds": {"k": -1}})])
    assert a._running().wait_until(lambda: a.statistics["endpoint"]["malformed receiver messages"] >= 7, PATIENCE)
    runtime._publish(topic, [encode(head, b"[1]\n")])  # a receiver of another partition
    runtime._publish(topic, [encode({"done": [[77]], "results": [[88, 1, 1, 0, 0]], "moved": [[99, "x"]]})])
    assert b.ask("account/x", {"add": 1}, PATIENCE) == 2
    assert a.statistics["endpoint"]["answers to unknown batches"] == 3
