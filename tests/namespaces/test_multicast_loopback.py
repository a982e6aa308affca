"""A publisher's multicasts are not returned to its machine, unless other endpoints run there."""

from __future__ import annotations

import pytest

from tests.namespaces.endpoints import endpoint
from tests.support.lan import PATIENCE, listen
from tests.support.namespaces import needs_namespaces, segment

pytestmark = [pytest.mark.namespaces, needs_namespaces]

COUNT = 300


def test_who_is_alone_on_its_machine_is_not_woken_by_what_it_sends() -> None:
    with segment(3) as hosts, endpoint(hosts[0]) as a, endpoint(hosts[1]) as b, endpoint(hosts[2]) as c:
        ears = [listen(other, "t") for other in (b, c)]
        assert a.wait_for_subscribers("t", 2, PATIENCE)
        for number in range(COUNT):
            a.publish("t", number)
        a.publish_many("t", [bytes(5000)] * COUNT)
        for ear in ears:
            ear.wait(2 * COUNT)
            assert ear.payloads == [*range(COUNT), *[bytes(5000)] * COUNT]
        assert a.statistics["network"]["datagrams sent"] > COUNT
        assert a.statistics["serialization"]["own datagrams received"] < 50, "more than its announcements"


def test_one_that_comes_later_to_the_same_machine_hears_all_at_once() -> None:
    with segment(2) as hosts, endpoint(hosts[0]) as a, endpoint(hosts[1]) as b:
        there = listen(b, "t", a)
        a.publish("t", "before")
        there.wait()
        there.heard.clear()
        with endpoint(hosts[0], name="neighbour") as neighbour:
            here = listen(neighbour, "t")
            assert a.wait_for_subscribers("t", 2, PATIENCE)
            for number in range(COUNT):
                a.publish("t", number, reliability="best-effort")  # nothing of this is sent twice
            for ear in (here, there):
                ear.wait(COUNT)
                assert ear.payloads == [*range(COUNT)]
            a.publish_many("t", [bytes(5000)] * COUNT)
            for ear in (here, there):
                ear.wait(2 * COUNT)
                assert ear.payloads[COUNT:] == [bytes(5000)] * COUNT


def test_who_comes_later_reaches_those_on_its_machine_at_once() -> None:
    with segment(2) as hosts, endpoint(hosts[0], name="neighbour") as neighbour, endpoint(hosts[1]) as there:
        ears = [listen(other, "t") for other in (neighbour, there)]
        assert neighbour.wait_for_peers(1, PATIENCE)
        for life in ("first", "second"):
            with endpoint(hosts[0], name="publisher") as publisher:
                assert publisher.wait_for_subscribers("t", 2, PATIENCE)
                for number in range(COUNT):
                    publisher.publish("t", [life, number], reliability="best-effort")
                assert publisher.flush(PATIENCE)
                for ear in ears:
                    ear.wait(COUNT if life == "first" else 2 * COUNT)
        for ear in ears:
            assert ear.payloads == [[life, number] for life in ("first", "second") for number in range(COUNT)]
