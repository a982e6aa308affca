"""What a broker counts, each cause once: every counter that changes in a step is named there."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from glue.gateway.mqtt.cluster.replica import Replica
from glue.gateway.mqtt.limits import Limits
from glue.model.state import Change
from glue.simulation.disk import SimulatedDisk
from tests.gateway.mqtt.test_cluster import Cluster
from tests.support import mqtt
from tests.support.mqtt import Bench, Device

MALFORMED = {"malformed sessions of other doors": 1}


def counted(bench: Any) -> Counter[str]:
    """What was counted since the last call."""
    found: Counter[str] = +bench.broker.statistics
    bench.broker.statistics.clear()
    return found


def messages(device: Device) -> tuple[int, int, int]:
    """What a connection received, sent and lost, as the list of clients shows it."""
    return device.client.received, device.client.sent, device.client.dropped


def test_connections() -> None:
    bench = Bench(limits=Limits(clients=2))
    bench.connect("a", clean=False)
    assert counted(bench) == {"connections": 1}
    bench.connect("a", clean=False, keep_alive=10)
    assert counted(bench) == {"connections": 1, "connections taken over": 1}
    silent = bench.link()
    assert bench.link().is_closed()
    assert counted(bench) == {"connections": 1, "connections refused": 1}
    bench.pass_time(10.0)
    assert counted(bench) == {"no CONNECT in time": 1}
    silent.leave()
    bench.pass_time(5.0)
    assert counted(bench) == {"keep-alive timeouts": 1}
    bench.broker.clients.clear()
    bench.link(5).send(mqtt.connect("m", 5, raw=b"\x15" + mqtt.text("method")))
    assert counted(bench) == {"connections": 1, "connects refused, 0x8c": 1}
    bench.connect("e").send(b"\xf0\x00")
    assert counted(bench) == {"connections": 1, "protocol errors, 0x82": 1}


def test_messages() -> None:
    bench = Bench(limits=Limits(retained=1))
    receiver, sender = bench.subscriber(("t/#", 1)), bench.connect("p")
    counted(bench)
    sender.send(*(mqtt.publish("t/a", b"x", 1, number) for number in (1, 2, 3)))
    assert counted(bench) == {"messages received": 3, "messages sent": 3}
    sender.send(*(mqtt.publish("t/a", b"x") for _ in range(2)))
    assert counted(bench) == {"messages received": 2, "messages sent": 2}
    assert (messages(sender), messages(receiver)) == ((5, 0, 0), (0, 5, 0))
    receiver.send(mqtt.acknowledge(4, 1), *(mqtt.acknowledge(4, number) for number in (77, 78)))
    assert counted(bench) == {"acknowledgements of unknown messages": 2}
    sender.send(*(mqtt.publish(f"r/{number}", b"x", retain=True) for number in range(3)))
    assert counted(bench) == {"messages received": 3, "retained messages refused": 2}
    old = bench.connect("v5", 5)
    old.send(*(mqtt.publish("t/a", b"x", version=5, raw=b"\x02\0\0\0\0") for _ in range(2)))
    assert counted(bench) == {"connections": 1, "messages received": 2, "messages expired": 2}


def test_messages_in_the_log_of_a_door_are_not_dropped() -> None:
    bench = Bench(limits=Limits(queue_messages=1), directory=SimulatedDisk(Random(1)))
    receiver, sender = bench.subscriber(("t", 1), client_id="a", clean=False), bench.connect("p")
    receiver.leave()
    counted(bench)
    sender.send(*(mqtt.publish("t", b"x", 1, number) for number in (1, 2, 3)))
    bench.sync()
    assert counted(bench) == {"messages received": 3}
    bench.connect("a", clean=False)
    bench.sync()
    assert counted(bench) == {"connections": 1, "messages sent": 3}


def test_messages_that_a_connection_cannot_take() -> None:
    bench = Bench()
    most = b"\x27\0\0\0\x14"  # 20 bytes: six around the payload
    small = bench.subscriber(("s", 0), client_id="small", version=5, raw=most)
    full, sender = bench.subscriber(("f", 0), client_id="full"), bench.connect("p")
    counted(bench)
    sender.send(*(mqtt.publish("s", b"x" * 15) for _ in range(3)), mqtt.publish("s", b"y" * 14))
    assert counted(bench) == {"messages received": 4, "messages dropped": 3, "messages sent": 1}
    assert messages(small) == (0, 1, 3)
    bench.broker.full(bench.now, full.client)
    sender.send(mqtt.publish("f", b"x"))
    bench.pass_time(0.5)
    assert counted(bench) == {"messages received": 1, "messages sent": 1, "connections stuck": 1}
    sender.send(*(mqtt.publish("f", b"x") for _ in range(3)))
    assert counted(bench) == {"messages received": 3, "messages dropped": 3}
    assert messages(full) == (0, 1, 3)
    bench.broker.free(bench.now, full.client)
    sender.send(mqtt.publish("f", b"x"))
    assert counted(bench) == {"messages received": 1, "messages sent": 1}, "not stuck any more"


def test_what_a_cluster_does() -> None:
    cluster = Cluster()
    first, second = cluster.doors

    def counts() -> list[Counter[str]]:
        return [counted(door) for door in (first, second)]

    former = cluster.connect(first)
    assert counts() == [{"connections": 1}, {}]
    cluster.connect(second, will=("w", b"x", 1, False))
    assert counts() == [{"connections taken over": 1}, {"connections": 1}]
    assert former.is_closed()
    watcher = cluster.subscriber(first, ("w", 1), client_id="watcher")
    second.broker.lost(second.now, next(iter(second.broker.clients.values())))
    cluster.settle()
    assert counts() == [{"connections": 1, "messages sent": 1}, {"wills published": 1}]
    assert watcher.payloads() == [b"x"]
    cluster.connect(second, "short", raw=b"\x11\0\0\0\5").leave()
    cluster.settle()
    counts()
    cluster.pass_time(5.0)
    assert counts() == [{"sessions expired": 1}, {}]
    first.cut_off()
    assert counts() == [{"times without a majority": 1}, {}]
    guest = first.link(5)
    guest.send(mqtt.connect("guest", 5), *(mqtt.publish("r", b"x", 0, 0, True, version=5) for _ in range(2)))
    assert counts()[0] == {"connections": 1, "messages received": 2, "retained messages refused": 1}


def test_malformed_values_of_a_cluster() -> None:
    found = Replica(lambda: 1_000.0)
    for key, value in (("o/x", b"7"), ("p/x", b'{"next": "y"}'), ("b/x", b"1"), ("d/1", b'"door"')):
        assert [*found.apply(0.0, [Change(key, value, 5)])] == []
    assert (found.statistics, found.doors) == ({"malformed changes of the cluster": 2}, {1: "door"})
    assert [found.progress("x").next for _ in range(2)] == [0, 0]
    assert found.statistics.total() == 3, "the progress of a session is read when it is asked for"


def test_ends_of_sessions() -> None:
    bench = Bench(limits=Limits(sessions=1))
    bench.connect("w", will=("t", b"x", 0, False)).leave()
    assert counted(bench) == {"connections": 1, "wills published": 1}
    bench.connect("a", clean=False).leave()
    bench.connect("a", clean=False)
    bench.connect("b", clean=False).leave()
    assert counted(bench) == {"connections": 3}, "a is here again"
    assert [*bench.broker.sessions] == ["a", "b"]
    bench.connect("c", clean=False).leave()
    assert counted(bench) == {"connections": 1, "sessions ended for room": 1}
    assert [*bench.broker.sessions] == ["a", "c"]
    bench.pass_time(7 * 86_400.0)
    assert counted(bench) == {"sessions expired": 1}
    assert [*bench.broker.sessions] == ["a"]


def test_sessions_that_move() -> None:
    old, new = Bench(), Bench()
    old.subscriber(("t", 1), client_id="a", clean=False).leave()
    old.connect("b", clean=False).send(*(mqtt.publish("t", b"x", 1, number) for number in (1, 2)))
    counted(old)
    value = old.broker.taken(old.now, "a", "other")
    assert counted(old) == {"sessions handed over": 1}, "what waits for it is not lost"
    assert old.broker.taken(old.now, "b", "other") is not None
    assert counted(old) == {"connections taken over": 1, "sessions handed over": 1}
    assert old.broker.taken(old.now, "nobody", "other") is None
    assert counted(old) == {}
    new.broker.give(new.now, value)
    assert counted(new) == {"sessions taken from other doors": 1}
    new.broker.give(new.now, {**value, "epoch": None})
    assert counted(new) == MALFORMED
    assert not new.broker.give_late(new.now, "a", [["x"]])
    assert counted(new) == MALFORMED
    new.broker.give_retained(new.now, ["x", None])
    assert counted(new) == {"malformed retained messages of other doors": 2}
