"""What a simulation of all senders counts and how long it waits, with offers made by hand; and settings to vary."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

import glue.transport.round_trip
from glue.errors import ConfigurationError
from glue.simulation import Crossing
from spark.replay import options, senders
from spark.replay.offered import Offer, Offered
from spark.replay.options import checked, combinations, constants
from spark.replay.senders import _Run, _share, simulate

Link = tuple[list[float], list[float | None]]


def message(at: float, topic: str = "t/1", size: int = 100, publisher: str = "a", **changed: Any) -> Offer:
    return Offer(at, publisher, topic, size, True, False, None)._replace(**changed)


def offered(
    messages: list[Offer], interests: list[tuple[float, str, str]], links: dict[tuple[str, str], Link] | None = None
) -> Offered:
    return Offered(["a", "b", "c"], messages, interests, links or {})


def test_each_other_endpoint_counts_once_while_it_has_an_interest() -> None:
    interests = [
        (3.0, "a", "+t/1"), (3.0, "b", "+t/1"), (10.0, "c", "+t/#"), (10.0, "c", "+t/#"), (10.05, "b", "-t/1"),
        (10.06, "b", "-t/1"), (10.06, "b", "-t/9"), (10.15, "b", "+t/+"), (10.16, "b", "+t/+"),
    ]  # fmt: skip
    messages = [message(10.0 + 0.1 * number) for number in range(4)]
    row = simulate(offered(messages, interests), {})
    assert (row["expected"], row["delivered"]) == (2 + 1 + 2 + 2, 7)
    assert (row["resends"], row["resent_bytes"], row["detached"]) == (0, 0, 0)
    assert row["p50_ms"] == row["p99_ms"] == pytest.approx(0.5)
    assert row["bytes"] > 400
    assert row["overhead"] == row["bytes"] / 400 - 1


def test_a_message_that_fits_several_interests_of_an_endpoint_arrives_there_once() -> None:
    row = simulate(offered([message(0.0), message(0.1)], [(0.0, "b", "+t/1"), (0.0, "b", "+t/#")]), {})
    assert (row["expected"], row["delivered"]) == (2, 2)


def test_links_have_the_delays_and_losses_of_the_same_time() -> None:
    times = [40.0 + number * 0.001 for number in range(1000)]
    delays: list[float | None] = [0.004 if number < 500 else 0.008 for number in range(1000)]
    links: dict[tuple[str, str], Link] = {("a", "b"): (times, delays), ("a", "c"): (times, [0.03] * 1000)}
    messages = [message(40.0 + number * 0.1) for number in range(10)]
    row = simulate(offered(messages, [(40.0, "b", "+t/1")], links), {})
    assert (row["expected"], row["delivered"], row["p50_ms"], row["p99_ms"]) == (
        10, 10, pytest.approx(4.0), pytest.approx(8.0),
    )  # fmt: skip
    row = simulate(offered(messages, [(0.0, "b", "+t/1"), (40.35, "c", "+#")], links), {})
    assert (row["expected"], row["delivered"], row["p99_ms"]) == (16, 16, pytest.approx(30.0))


@pytest.mark.parametrize(("reliable", "delivered"), [(True, 2), (False, 1)])
def test_what_a_link_loses_is_sent_again_if_it_is_reliable(reliable: bool, delivered: int) -> None:
    links: dict[tuple[str, str], Link] = {("a", "b"): ([5.0, 8.0], [None, 0.001])}
    messages = [message(5.0, reliable=reliable), message(8.05, reliable=reliable)]
    row = simulate(offered(messages, [(0.0, "b", "+t/1")], links), {})
    assert (row["expected"], row["delivered"]) == (2, delivered)
    assert (row["resends"] > 0) == (row["resent_bytes"] > 100) == reliable
    assert row["p99_ms"] == (pytest.approx(3000, abs=600) if reliable else pytest.approx(1.0))


def test_traffic_under_way_at_the_end_is_waited_for() -> None:
    links: dict[tuple[str, str], Link] = {("a", "b"): ([5.0, 10.0], [None, 0.001])}
    row = simulate(offered([message(5.0), message(5.01, publisher="b")], [(0.0, "b", "+t/1")], links), {})
    assert (row["expected"], row["delivered"]) == (1, 1)


def test_a_retained_value_that_comes_late_is_no_message_of_its_time() -> None:
    messages = [message(0.0, retain=True), message(0.2, topic="other"), message(0.4, retain=True, lifespan=9.0)]
    row = simulate(offered(messages, [(0.0, "b", "+t/1"), (0.1, "c", "+#")]), {})
    assert (row["expected"], row["delivered"]) == (1 + 1 + 2, 4)


def test_a_publisher_without_room_waits_and_its_messages_are_later() -> None:
    burst = offered([message(1.0, size=20_000) for _ in range(12)], [(0.0, "b", "+t/1")])
    at_once, waiting = simulate(burst, {}), simulate(burst, {"queue_limit": "20000"})
    assert (at_once["delivered"], waiting["delivered"]) == (12, 12)
    assert waiting["p99_ms"] > 6 > 2 > at_once["p99_ms"]
    assert waiting["queue_limit"] == "20000"


def test_an_offer_without_messages_has_no_latencies() -> None:
    row = simulate(offered([], [(0.0, "b", "+t/1")]), {})
    names = ("expected", "delivered", "resends", "p50_ms", "p99_ms", "overhead")
    assert [row[name] for name in names] == [0, 0, 0, None, None, None]
    assert row["bytes"] == 0 or row["bytes"] > 50, "announcements alone"


def test_each_datagram_counts_once_for_all_who_get_it() -> None:
    run = _Run(offered([message(0.0, size=1000)], []), {}, 0)
    here, there, elsewhere = (("10.0.0.1", 1), ("10.0.0.2", 1), ("10.0.0.3", 1))
    outcome: Any = None

    def crossed(kind: str, attempt: int, receiver: Any = there, at: float = 1.0, source: Any = here) -> int:
        data = b'{"glue":[],"transport":["%s",%d]}\n' % (kind.encode(), attempt) + bytes(100)
        run._count(Crossing(at + 1, source, None, receiver, data, outcome, at))
        return len(data)

    size = crossed("data", 0)
    crossed("data", 0, elsewhere)
    crossed("data", 0, here)
    resent = crossed("data", 1)
    crossed("data", 1, elsewhere)
    group = crossed("group", 2)
    others = crossed("ack", 9) + crossed("data", 0, at=2.0) + crossed("data", 0, source=elsewhere)
    for header in (b'{"glue":[]}\n', b'{"glue":[],"transport":[]}\n'):
        run._count(Crossing(2.0, here, None, there, header, outcome, 1.0))
        others += len(header)
    row = run.row()
    assert (row["resends"], row["resent_bytes"]) == (2, resent + group)
    assert row["bytes"] == size + resent + group + others
    assert row["overhead"] == row["bytes"] / 1000 - 1


def test_members_that_were_detached_are_summed_over_causes_and_endpoints() -> None:
    run: Any = _Run.__new__(_Run)
    counts = {"members detached: silent": 2, "members detached: no window": 3, "members attached": 9}
    assert run._detachments(SimpleNamespace(statistics={"transport": counts})) == 5


def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed() -> None:
    values = [number / 1000 for number in range(1, 101)]
    assert [_share(values, share) for share in (0.0, 0.5, 0.505, 0.99, 1.0)] == pytest.approx([1, 50, 51, 99, 100])
    assert (_share([0.25], 0.5), _share([], 0.5)) == (250.0, None)


def test_times_of_a_simulation_are_what_its_page_says() -> None:
    assert (senders.SETTLE, senders.EARLY, senders.DRAIN, senders.RETRY) == (2.0, 0.5, 30.0, 0.001)


# ------------------------------------------------------------------------------------------------ settings


def test_all_combinations_of_values_are_tried_in_order() -> None:
    assert combinations([]) == [{}]
    assert combinations(["lease_intervals=2,3", "round_trip.MAX_PROBE=0.5"]) == [
        {"lease_intervals": "2", "round_trip.MAX_PROBE": "0.5"},
        {"lease_intervals": "3", "round_trip.MAX_PROBE": "0.5"},
    ]
    assert combinations(["lease_intervals=2"], settings_only=True) == [{"lease_intervals": "2"}]
    for word in ("round_trip.MAX_PROBE=0.5", "name=hall", "lease_intervals", "none.MAX_PROBE=1", "MAX_PROBE=1"):
        with pytest.raises(
            ValueError, match=rf"^'{word}': expected a setting and its values, such as lease_intervals="
        ):
            combinations([word], settings_only=True)
    for word in ("none.MAX_PROBE=1", "MAX_PROBE=1", "name=hall"):
        with pytest.raises(ValueError, match="expected a setting"):
            combinations([word])


def test_values_are_checked_by_their_own_names() -> None:
    assert checked({"lease_intervals": "3", "round_trip.MAX_PROBE": "0.5"}) == {"lease_intervals": 3}
    with pytest.raises(ConfigurationError, match=r"^lease_intervals=.*x"):
        checked({"lease_intervals": "x"})
    for value in ("x", "null", "true", '"2"', "[1]", "NaN", "Infinity"):
        with pytest.raises(ValueError, match=rf"^round_trip\.MAX_PROBE={re.escape(value)}: expected a number$"):
            checked({"round_trip.MAX_PROBE": value})


def test_constants_come_back_whatever_happens() -> None:
    module, before = glue.transport.round_trip, glue.transport.round_trip.MAX_PROBE

    def tried(changed: dict[str, str]) -> None:
        with constants(changed):
            assert module.MAX_PROBE == 7
            raise RuntimeError

    for changed in ({"round_trip.MAX_PROBE": "7"}, {"lease_intervals": "3", "round_trip.MAX_PROBE": "7"}):
        with pytest.raises(RuntimeError):
            tried(changed)
        assert module.MAX_PROBE is before
    with pytest.raises(ValueError, match="expected a number"), constants({"round_trip.MAX_PROBE": "x"}):
        pass
    assert module.MAX_PROBE is before
    assert "round_trip" in options.modules()
