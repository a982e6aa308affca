"""Who an endpoint is: its name, its id, and the number of its life."""

from __future__ import annotations

from random import Random

from glue.endpoint.identity import identity_of
from glue.model.names import id_of
from glue.settings import Settings


def life(started_at: float, seed: int) -> tuple[int, int]:
    """The two parts of the number of a life: its time, and what luck added."""
    found = identity_of(Settings(name="ann"), Random(seed), started_at, None)
    assert (found.name, found.endpoint_id) == ("ann", id_of("ann"))
    return found.incarnation >> 10, found.incarnation & 1023


def test_a_life_is_numbered_by_its_start_in_milliseconds_and_luck() -> None:
    lives = [life(1_700_000_000.1225, seed) for seed in range(50)]
    assert {time for time, _ in lives} == {1_700_000_000_122}
    lucks = sorted(luck for _, luck in lives)
    assert lucks[0] < 100 < 900 < lucks[-1]
    assert len({*lucks}) > 40
    assert life((1 << 42) / 1000 + 5.0, 1)[0] == 5000  # it begins anew after 139 years, in 2109
    assert life((1 << 42) / 1000 - 1.0, 1)[0] == (1 << 42) - 1000


def test_an_endpoint_without_a_name_has_that_of_its_machine_and_a_number() -> None:
    one, other = (identity_of(Settings(), Random(seed), 0.0, None) for seed in (1, 2))
    machine, _, number = one.name.rpartition("-")
    assert (len(number), int(number, 16) >= 0, machine != "") == (8, True, True)
    assert one.name != other.name
    assert one.endpoint_id == id_of(one.name)
