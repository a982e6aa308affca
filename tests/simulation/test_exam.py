"""Simulated endpoints answer the questions of a peer, as `glue doctor` asks them."""

from __future__ import annotations

from glue.endpoint.inquiring import answered, begin, begin_round
from glue.simulation import Conditions, World


def test_endpoints_tell_their_report_and_what_they_hear_of_each_other() -> None:
    world = World(seed=3)
    doctor, hall, attic = (world.endpoint(name, network_id=7) for name in ("doctor", "hall", "attic"))
    silent = world.endpoint("silent", network_id=7, doctor=False)
    assert world.run_until(lambda: len(doctor.peers) == 3, 5)
    world.network.set_conditions(Conditions(loss=0.5), source=hall.host, destination=attic.host)
    number = begin_round(doctor, 20)
    world.run(1.0)
    inquiry = begin(doctor, ["report", "links"], 1.0)
    assert world.run_until(lambda: inquiry.is_over, 2)
    told = {one.name: one.sections for one in answered(inquiry)}
    assert [*told] == ["attic", "hall"]
    report = told["hall"]["report"]
    assert (report["name"], report["id"], report["network_id"], report["sealed"]) == ("hall", hall.id, 7, False)
    assert report["peers"] == 3
    links = {peer["name"]: peer for peer in told["attic"]["links"]["peers"]}
    assert told["attic"]["links"]["round"] == links["hall"]["heard"] == number
    assert 0 < links["hall"]["unicast"][0] < 16 == links["doctor"]["unicast"][0]
    assert "heard" not in links["silent"]
    assert silent.statistics["discovery"]["exam refused"] > 0


def test_a_restarted_endpoint_answers() -> None:
    world = World()
    doctor, hall = world.endpoint("doctor"), world.endpoint("hall")
    assert world.run_until(lambda: doctor.peers, 5)
    hall.restart()
    world.run(1.0)
    inquiry = begin(doctor, ["report"], 1.0)
    assert world.run_until(lambda: inquiry.is_over, 2)
    assert [one.sections["report"]["incarnation"] for one in answered(inquiry)] == [hall.incarnation]
