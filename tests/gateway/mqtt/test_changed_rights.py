"""Rights that change, or differ within a topic filter: what a client gets of it, at once and when it comes back."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from glue.gateway.mqtt.access import Access, Everybody
from glue.gateway.mqtt.files import FileAccess
from glue.gateway.mqtt.identity import Identity
from glue.gateway.mqtt.packets import Publish
from glue.simulation.disk import SimulatedDisk
from tests.support import mqtt
from tests.support.mqtt import Bench

RULES = "topic home/#\ntopic deny home/secret/#\ntopic out/#\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of rules for clients without a user name."""
    (tmp_path / "rules").write_text(RULES)
    return tmp_path / "rules"


class Named(Everybody):
    """Believes the name of each user, and asks other rules for the rest."""

    def __init__(self, rules: Access) -> None:
        self.authorize, self.refused_by, self.narrows = rules.authorize, rules.refused_by, rules.narrows  # type: ignore


def change(bench: Bench, path: Path, text: str) -> None:
    """Write other rules, and let the broker heed them."""
    path.write_text(text)
    assert bench.broker.access.changed()
    bench.broker.recheck(bench.now)


@pytest.mark.parametrize("client_id", ["c", "a/b", "+"])
def test_a_pattern_denies_what_it_names_with_the_client_and_its_user(path: Path, client_id: str) -> None:
    path.write_text("pattern home/#\npattern deny home/%u/%c\n")
    access = FileAccess(rules=path, anonymous=True)
    kitchen, name = Identity("kitchen"), f"home/kitchen/{client_id}"
    found = [access.authorize(kitchen, client_id, "read", one) for one in (name, f"{name}/x", f"home/hall/{client_id}")]
    assert found == [False, True, True]
    assert access.refused_by(kitchen, client_id, "read", name).endswith("line 2: deny home/%u/%c")


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("wanted", ["#", "home/#", "home/+/x", "$share/g/home/#"])
def test_of_a_filter_that_is_wider_than_a_denial_the_client_gets_the_rest(path: Path, wanted: str, qos: int) -> None:
    path.write_text(f"topic #\n{RULES}")
    bench = Bench(FileAccess(rules=path, anonymous=True))
    bench.broker.deliver(bench.now, Publish("home/secret/x", (b"kept",), 1, True))
    bench.broker.deliver(bench.now, Publish("home/open/x", (b"kept",), 1, True))
    device = bench.connect("s")
    device.send(mqtt.subscribe(1, (wanted, qos)))
    assert device.read()[0].body[2:] == bytes((qos,))
    for topic in ("home/secret/x", "home/open/x"):
        bench.broker.deliver(bench.now, Publish(topic, (b"new",), qos))
    assert [(one.topic, one.payload) for one in device.messages()] == [("home/open/x", b"new")]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_shared_message_goes_to_a_member_that_may_read_it(path: Path, qos: int, is_clean: bool) -> None:
    path.write_text("pattern #\npattern deny home/%c\n")
    bench = Bench(FileAccess(rules=path, anonymous=True))
    members = [bench.subscriber(("$share/g/home/+", qos), client_id=name, clean=is_clean) for name in "abc"]
    for topic in ("home/a", "home/b", "home/d"):
        bench.broker.deliver(bench.now, Publish(topic, tuple(b"%d" % number for number in range(30)), qos))
    counts = [[sum(one.topic == f"home/{topic}" for one in got) for topic in "abd"] for got in
              (member.messages() for member in members)]  # fmt: skip
    assert [sum(column) for column in zip(*counts, strict=True)] == [30, 30, 30]
    assert [[count > 0 for count in row] for row in counts] == [[False, True, True], [True, False, True], [True] * 3]
    assert not bench.broker.statistics["messages dropped"]
    for member in members[1:]:
        member.leave()
    bench.broker.deliver(bench.now, Publish("home/a", (b"for none",), 0))
    assert (members[0].read(), bench.broker.statistics["messages dropped"]) == ([], int(is_clean or not qos))


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("cause", ["rules", "user"])
def test_a_client_that_comes_back_gets_nothing_that_it_may_not_read_any_more(
    path: Path, cause: str, is_stored: bool
) -> None:
    """The rules have changed meanwhile, or another user has the client id now."""
    bench = Bench(FileAccess(rules=path, anonymous=True), directory=SimulatedDisk(Random(1)) if is_stored else None)
    sync = bench.sync if is_stored else lambda: None
    device = bench.subscriber(("home/#", 1), ("out/a", 1), ("$share/g/home/+", 1), clean=False)
    sync()
    device.read()
    bench.broker.deliver(bench.now, Publish("home/x", (b"under way",), 1))
    sync()
    assert device.payloads() == [b"under way"] * 2, "once by the share"
    device.leave()
    for topic in ("home/x", "home/secret/x", "out/a"):
        bench.broker.deliver(bench.now, Publish(topic, (topic.encode(),), 1))
    sync()
    user = None
    if cause == "rules":
        change(bench, path, "topic out/a\n")
    else:
        path.write_text(f"{RULES}user guest\ntopic out/a\n")
        assert bench.broker.access.changed()
        user = "guest"
        bench.broker.access = Named(bench.broker.access)
    back = bench.link()
    back.send(mqtt.connect("s", user=user, clean=False))
    sync()
    assert [mqtt.publication(one).payload for one in back.read()[1:]] == [b"out/a"]
    bench.broker.deliver(bench.now, Publish("home/x", (b"later",), 1))
    bench.broker.deliver(bench.now, Publish("out/a", (b"later",), 1))
    sync()
    assert [(one.topic, one.payload) for one in back.messages()] == [("out/a", b"later")]
    assert [*bench.broker.subscriptions.patterns] == ["out/a"]


def test_what_waits_for_a_connected_client_is_left_out_once_it_is_denied(path: Path) -> None:
    bench = Bench(FileAccess(rules=path, anonymous=True))
    device = bench.subscriber(("home/a", 1), ("out/a", 1), version=5, raw=b"\x21\x00\x01")
    for topic in ("home/a", "home/a", "out/a"):
        bench.broker.deliver(bench.now, Publish(topic, (topic.encode(),), 1))
    assert device.payloads() == [b"home/a"]
    change(bench, path, "topic out/a\n")
    assert device.payloads() == []
    device.send(mqtt.acknowledge(4, 1))
    assert device.payloads() == [b"out/a"]
    assert not bench.broker.sessions["s"].queued


def test_what_waits_of_many_denied_topics_is_counted_by_topic_and_goes_at_once(path: Path) -> None:
    bench = Bench(FileAccess(rules=path, anonymous=True))
    bench.subscriber(("home/#", 1), ("out/#", 1), clean=False).leave()
    for topic in ("home/a", "out/a", "home/a", "home/b"):
        bench.broker.deliver(bench.now, Publish(topic, (topic.encode(),), 1))
    change(bench, path, "topic out/#\n")
    back = bench.link()
    back.send(mqtt.connect("s", clean=False))
    assert [mqtt.publication(one).payload for one in back.read()[1:]] == [b"out/a"]
    assert bench.broker.statistics["refused to read"] == 4, "a subscription and three messages"
    assert not bench.broker.sessions["s"].queued_bytes


def test_a_will_that_may_not_be_published_any_more_is_not(path: Path) -> None:
    bench = Bench(FileAccess(rules=path, anonymous=True))
    lost = [bench.connect(name, will=(name, b"gone", 0, False)) for name in ("home/a", "out/a")]
    change(bench, path, "topic out/a\n")
    for device in lost:
        device.leave()
    assert [run.topic for run in bench.broker.published] == ["out/a"]
