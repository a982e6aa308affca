"""Who asks on one topic and has just subscribed to another hears the answer there, however soon it comes."""

from __future__ import annotations

import pytest

from glue.contract import Inbound, Interest, Leave, PeerInterest
from tests.discovery.lan import Host, Lan, data, pair


def heard(host: Host) -> list[object]:
    """What a host was told of its peer since the last time, in order: its patterns, and data."""
    told, host.told = host.told, []
    found: list[object] = []
    for item in told:
        if isinstance(item, PeerInterest):
            found += [f"+{pattern}" for pattern in item.added] + [f"-{pattern}" for pattern in item.removed]
        elif isinstance(item, Inbound):
            found.append("data")
    return found


def without_announcements(lan: Lan) -> None:
    """What tells everybody of interests gets lost, as what comes to another socket may come too late."""
    lan.is_dropped = lambda source, host, frame: frame.address is None


@pytest.mark.parametrize("gap", [0.0, 0.001, 0.03], ids=["at once", "1 ms apart", "30 ms apart"])
def test_a_peer_learns_of_interests_before_data_that_it_may_answer(gap: float) -> None:
    lan, one, other = pair()
    without_announcements(lan)
    heard(other)
    for number in range(200):
        lan.want(one, f"answer/{number}", removed=[f"answer/{number - 1}"] if number else [])
        lan.order(one, data(other.id))
        lan.run(gap)
    lan.run(0.01)
    told = heard(other)
    assert told.count("data") == 200
    for number in range(200):
        assert told.index(f"+answer/{number}") < [at for at, what in enumerate(told) if what == "data"][number]


def test_several_peers_learn_of_interests_before_data_for_all() -> None:
    lan = Lan()
    one, *others = [lan.add(number) for number in range(1, 4)]
    lan.run(1.5)
    lan.want(one, "before")  # the next announcement would have to wait
    lan.run(0.002)
    for other in others:
        heard(other)
    lan.order(one, Interest(["answer"], []), data(), data())
    lan.run(0.002)
    assert [heard(other) for other in others] == [["+answer", "data", "data"]] * 2


def test_where_nothing_changed_data_goes_alone() -> None:
    lan, one, other = pair()
    lan.want(one, "answer")
    lan.run(1)
    lan.sent.clear()
    lan.order(one, data(other.id), data())
    assert [frame.header for _, frame in lan.sent] == [{"transport": [1]}] * 2


def test_a_peer_is_told_once_and_of_nothing_but_what_is_new() -> None:
    lan, one, other = pair()
    lan.want(one, *[f"topic/{number}" for number in range(100)])
    lan.run(1)
    lan.want(one, "answer")
    lan.sent.clear()
    for _ in range(10):
        lan.order(one, data(other.id))
    told = [frame for _, frame in lan.sent if "discovery" in frame.header]
    assert [body for frame in told for body in frame.bodies] == [
        b'{"epoch":0,"first":100,"last":true,"operations":["+answer"]}'
    ]


def test_a_new_epoch_is_told_of_too() -> None:
    lan, one, other = pair()
    without_announcements(lan)
    heard(other)
    lan.sent.clear()
    for number in range(500):
        lan.want(one, f"answer/{number}", removed=[f"answer/{number - 1}"] if number else [])
        lan.order(one, data(other.id))
        lan.run(0.003)
        told = heard(other)
        assert told.index(f"+answer/{number}") < told.index("data")
    epochs = [frame for _, frame in lan.sent if frame.address and "answer" in frame.header.get("discovery", ())]
    assert len(epochs) > 3


@pytest.mark.parametrize("gap", [0.0, 1.0], ids=["announced later", "announced at once"])
@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_many_changes_at_once_are_all_told(several: bool, gap: float) -> None:
    lan = Lan()
    one, *others = [lan.add(number) for number in range(1, 4)]
    lan.run(5)
    lan.want(one, "before")
    lan.run(gap + 0.002)
    for other in others:
        heard(other)
    if not several:
        without_announcements(lan)
    lan.order(one, Interest([f"answer/{number}" for number in range(100)], []))
    lan.order(one, data(*([] if several else [others[0].id])))
    lan.run(0.002)
    told = heard(others[0])
    assert told.index("+answer/99") < told.index("data")


def test_who_was_not_asked_for_long_is_told_what_is_new_now() -> None:
    lan = Lan()
    one, often, rarely = [lan.add(number) for number in range(1, 4)]
    lan.want(one, *[f"other/{number}" for number in range(2000)])
    lan.run(5)
    for number in range(500):
        lan.want(one, f"answer/{number}", removed=[f"answer/{number - 1}"] if number else [])
        asked = often if number % 100 else rarely
        heard(asked)
        lan.order(one, data(asked.id))
        lan.run(0.004)
        told = heard(asked)
        assert told.index(f"+answer/{number}") < told.index("data")


def test_after_the_goodbye_nothing_is_told() -> None:
    lan, one, other = pair()
    lan.want(one, "before")
    lan.run(0.002)
    lan.sent.clear()
    lan.order(one, Interest(["answer"], []), Leave(), data(), data(other.id))
    lan.run(5)
    frames = [frame for source, frame in lan.sent if source is one]
    kinds = [frame.header["discovery"][-1] if "discovery" in frame.header else "data" for frame in frames]
    assert kinds == ["goodbye", "goodbye", "goodbye", "data", "data"]


def test_data_for_several_does_not_hurry_announcements() -> None:
    lan = Lan()
    one, *_ = [lan.add(number) for number in range(1, 4)]
    lan.run(2)
    one.layer.contact(("10.9.9.9", 9))
    lan.run(5)
    lan.sent.clear()
    for number in range(1000):
        lan.want(one, f"answer/{number}", removed=[f"answer/{number - 1}"] if number else [])
        lan.order(one, data())
        lan.run(0.001)
    frames = [frame for source, frame in lan.sent if source is one and "discovery" in frame.header]
    assert sum(frame.header["discovery"][-1] == "announce" for frame in frames) < 130
    assert sum(frame.address == ("10.9.9.9", 9) for frame in frames) < 130
    assert sum(len(body) for frame in frames for body in frame.bodies) < 1000 * 250
