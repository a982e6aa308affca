"""Each rule: what is seen, which sentence follows, and how grave it is. The healthy network gives nothing but notes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from glue.doctor import FAULT, NOTE, RULES, WARNING, EndpointSeen, Finding, PathSeen, Seen, diagnose
from glue.doctor.endpoint_rules import in_other_subnet
from tests.doctor.scenes import (
    ATTIC,
    DOCTOR,
    HALL,
    KITCHEN,
    alone_with_interface,
    at_hall,
    healthy,
    on_machine,
    on_ways,
    with_interface,
    with_sender,
)  # fmt: skip

HERE, THERE = (DOCTOR, KITCHEN), (HALL, ATTIC)
NONE, LARGE_NONE = (0, 24), (0, 6)
BY_TWO = (
    PathSeen(peer="kitchen", link="eth0", carries=True, round_trip=0.001),
    PathSeen(peer="kitchen", link="wlan0", answers=False),
    PathSeen(peer="attic", link="eth0", answers=False, carries=True),
    PathSeen(peer="attic", link="wlan0", answers=False),
)
SEALED = replace(DOCTOR, sealed=True, epoch=2)


def counted(layer: str, **causes: int) -> dict[str, Any]:
    return {"counters": {layer: {cause.replace("_", " "): count for cause, count in causes.items()}}}


def sealed_doctor(**causes: int) -> Seen:
    seen = with_sender(sealed=True, version=None, id=None, name="", key_id=7)
    counters = {"security": {cause.replace("_", " ").replace("refused", "refused:"): n for cause, n in causes.items()}}
    return replace(seen, sealed=True, endpoints=(replace(SEALED, counters=counters), *seen.others))


def sole(*endpoints: EndpointSeen, **changes: Any) -> Seen:
    """The doctor with these peers, and none but these senders."""
    return replace(with_sender(**changes), endpoints=(DOCTOR, *endpoints), ways=())


CASES: list[tuple[str, str, Seen, str]] = [
    ("port-taken", FAULT, on_machine(failure="multicast_address=…: taken", port_taken=True), "another program"),
    ("no-endpoint", FAULT, on_machine(failure="no such family"), "no such family"),
    ("interface-missing", FAULT, on_machine(wanted="eth7", chosen=None), "eth7 does not exist"),
    ("no-interface", FAULT, alone_with_interface(up=False), "eth0 is down"),
    ("no-interface", FAULT, alone_with_interface(up=False, carrier=False), "eth0 has no carrier"),
    ("no-interface", FAULT, alone_with_interface(ipv4=(), ipv6=("fe80::1/64",)), "eth0 has no IPv4 address"),
    ("no-interface", FAULT, alone_with_interface(multicast=False), "eth0 takes no multicast"),
    ("interface-unusable", FAULT, with_interface(up=False), "eth0 is down"),
    ("interface-unusable", FAULT, with_interface(ipv4=()), "no IPv4 address"),
    ("interface-unusable", FAULT, with_interface(multicast=False), "takes no multicast"),
    ("container-bridge", FAULT, on_machine(chosen="docker0"), "docker0, a bridge for containers"),
    ("container-bridge", FAULT, on_machine(chosen="virbr0"), "virbr0, a bridge for virtual machines"),
    (
        "wrong-interface",
        FAULT,
        replace(
            on_machine(
                interfaces=(
                    replace(healthy().machine.interfaces[1], name="eth1", heard=0),
                    healthy().machine.interfaces[1],
                ),
                chosen="eth1",
            ),
            endpoints=(DOCTOR, KITCHEN),
            ways=(),
        ),
        "uses the interface eth1, but other endpoints are heard on eth0",
    ),
    ("firewall", WARNING, on_machine(blocking=("-A INPUT -p udp -j DROP",)), "-A INPUT -p udp -j DROP"),
    ("firewall", FAULT, on_machine(blocking=("-P INPUT DROP",), looped=False), "-P INPUT DROP"),
    ("firewall-unread", NOTE, on_machine(firewall_read=False), "could not be read"),
    ("sending-refused", FAULT, on_machine(unsent={"not sent: EPERM": 7}), "EPERM, 7 times"),
    ("multicast-not-looped", FAULT, on_machine(looped=False), "does not come back"),
    ("own-bridge", NOTE, on_machine(snooping_without_querier=True), "IGMP snooping and without a querier"),
    ("power-saving", WARNING, with_interface(power_saving=True), "saves power"),
    ("damaged-frames", WARNING, with_interface(errors=20), "20 damaged frames"),
    ("no-capture", NOTE, on_machine(may_capture=False), "no right to record"),
    (
        "container-network",
        WARNING,
        replace(
            on_machine(in_container=True, interfaces=(replace(healthy().machine.interfaces[1], kind="veth"),)),
            endpoints=(DOCTOR,),
            ways=(),
        ),
        "in a container with a network of its own",
    ),
    ("sealed-beside-plain", FAULT, with_sender(sealed=True, version=None, id=None, name=""), "10.0.0.9 seals"),
    ("plain-beside-sealed", WARNING, replace(healthy(), sealed=True), "sends without a key"),
    ("another-key", FAULT, sealed_doctor(refused_another_key=4), "10.0.0.9 seals with another key"),
    ("epoch-over", FAULT, sealed_doctor(refused_epoch_is_over=4), "epoch of the key that is over"),
    (
        "epochs-differ",
        WARNING,
        replace(healthy(), endpoints=(SEALED, KITCHEN, replace(HALL, sealed=True, epoch=1))),
        "hall (10.0.0.2) still seals with epoch 1 of the key, others with 2",
    ),
    ("other-network-id", FAULT, with_sender(network_id=2), "garden (10.0.0.9) has network id 2"),
    ("other-network-id", FAULT, sole(network_id=2), "they ignore each other"),
    ("other-network-id", NOTE, replace(sole(KITCHEN, HALL, ATTIC, network_id=2)), "network id 2"),
    ("wire-version", FAULT, with_sender(version=2), "version 2 of the wire format"),
    ("not-glue", WARNING, with_sender(version=None, network_id=None, id=None, name="", count=9), "(9 in 4 s)"),
    ("ttl", WARNING, with_sender(ttl=5), "TTL 5 instead of 1"),
    ("duplicate-name", FAULT, with_sender(lives=3, id="a0", name="kitchen"), "name kitchen (at 10.0.0.1 and 10.0.0.9)"),
    ("duplicate-name", FAULT, at_hall(**counted("discovery", name_clash=2)), "two endpoints have the name hall"),
    ("contact-silent", FAULT, replace(healthy(), contacts=("10.0.0.9",)), "no endpoint answers at 10.0.0.9"),
    ("one-way-to-doctor", FAULT, at_hall(answered=False, proven=False), "hall (10.0.0.2) is heard by multicast"),
    ("not-joined", FAULT, at_hall(counters={"network": {"not joined: ENOBUFS": 1}}), "refused to join the group (ENO"),
    ("nothing-comes", FAULT, on_ways((HALL,), HERE, multicast=NONE, unicast=NONE), "nothing from hall (10.0.0.2) to"),
    (
        "multicast-stopped",
        FAULT,
        on_ways(HERE, (HALL,), multicast=NONE, announced=40.0),
        "multicast from this machine to hall (10.0.0.2) came until 40.0 s ago and stopped",
    ),
    (
        "multicast-blocked",
        FAULT,
        on_ways((*HERE, HALL), (*HERE, HALL), multicast=NONE, announced=None),
        "blocked in both directions between this machine and hall (10.0.0.2)",
    ),
    (
        "multicast-one-way",
        FAULT,
        on_ways((*HERE, HALL), (ATTIC,), multicast=NONE, announced=None),
        "no multicast comes in at attic (10.0.0.3)",
    ),
    (
        "multicast-one-way",
        FAULT,
        on_ways((ATTIC,), (*HERE, HALL), multicast=NONE, announced=None),
        "the multicast of attic (10.0.0.3) reaches nobody",
    ),
    (
        "multicast-one-way",
        FAULT,
        on_ways((ATTIC,), (HALL,), multicast=NONE, announced=None),
        "multicast from attic (10.0.0.3) to hall (10.0.0.2) does not come, in this direction only",
    ),
    ("unicast-blocked", FAULT, on_ways((HALL,), (ATTIC,), unicast=NONE), "unicast from hall (10.0.0.2) to attic"),
    (
        "large-lost",
        FAULT,
        on_ways((HALL,), (ATTIC,), large_unicast=LARGE_NONE, large_multicast=LARGE_NONE),
        "large datagrams from hall (10.0.0.2) to attic (10.0.0.3) do not come",
    ),
    ("loss", FAULT, on_ways((HALL,), (ATTIC,), unicast=(16, 24)), "17% of the datagrams from hall"),
    ("loss", WARNING, on_ways((HALL,), (ATTIC,), unicast=(21, 24)), "in this direction only"),
    ("slow", WARNING, on_ways((HALL,), (ATTIC,), round_trip=0.2), "even the fastest of 20 round trips"),
    ("busy", NOTE, replace(on_ways((HALL,), (ATTIC,), unicast=(16, 24)), busy=True), "so busy that what is lost"),
    ("busy", NOTE, replace(on_ways((HALL,), (ATTIC,), round_trip=0.2), busy=True), "cannot be told from what is late"),
    ("not-known", WARNING, on_ways((HALL,), (ATTIC,), known=False), "attic does not know hall"),
    ("buffer-full", WARNING, at_hall(**counted("network", not_received=0) | {
        "counters": {"network": {"not received: buffer full": 1234}}}), "1,234 datagrams were dropped there"),
    ("buffer-limited", WARNING, at_hall(buffer_granted=8192), "8,192 bytes instead of 33,554,432"),
    ("buffer-limited", NOTE, at_hall(buffer_granted=425_984), "425,984 bytes instead of"),
    ("buffer-small", WARNING, at_hall(buffer_granted=8192, buffer_asked=8192), "only 8,192 bytes"),
    ("other-subnet", WARNING, at_hall(address="10.9.0.2"), "hall (10.9.0.2) is in another subnet"),
    (
        "reverse-path",
        WARNING,
        replace(at_hall(address="10.9.0.2"), machine=replace(healthy().machine, strict_reverse_path=True)),
        "rp_filter = 1",
    ),
    ("overloaded", WARNING, at_hall(waiting=30 << 20), "handles its messages too slowly"),
    ("clock-off", WARNING, at_hall(clock_offset=-90.0), "the clock of hall (10.0.0.2) is 90.0 s behind"),
    (
        "clock-off",
        WARNING,
        healthy(replace(KITCHEN, clock_offset=50.0), replace(HALL, clock_offset=50.1)),
        "the clock of this machine is 50.1 s behind",
    ),
    ("clock-stepped", WARNING, at_hall(clock_moved=-3600.0), "was set back by 3,600 s"),
    ("versions-differ", WARNING, at_hall(version="0.0.9"), "hall (10.0.0.2) runs glue 0.0.9, others 0.1.0"),
    ("malformed", WARNING, at_hall(**counted("serialization", malformed_header=40)), "40 datagrams that were damaged"),
    ("too-many-peers", WARNING, at_hall(**counted("discovery", peer_table_full=9)), "refused 9 announcements"),
    ("interface-lost", NOTE, at_hall(**counted("network", interface_lost=2)), "was gone 2 times"),
    (
        "link-down",
        WARNING,
        at_hall(links={"eth0": True, "wlan0": False}),
        "wlan0 of hall (10.0.0.2) is down: eth0 carries everything",
    ),
    (
        "path-silent",
        WARNING,
        at_hall(links={"eth0": True, "wlan0": True}, paths=BY_TWO),
        "kitchen does not answer hall (10.0.0.2) by wlan0; eth0 carries what goes there",
    ),
    ("suspended", NOTE, at_hall(**counted("discovery", suspended=3)), "3 times"),
    ("silent", NOTE, at_hall(answered=False), "answers no questions"),
    ("alone", NOTE, replace(healthy(), endpoints=(DOCTOR,), senders=(), ways=()), "no other endpoint is heard"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "level", "seen", "words"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)])
def test_what_is_seen_gives_a_sentence_and_a_cure(rule: str, level: str, seen: Seen, words: str) -> None:
    diagnosis = diagnose(seen)
    (finding,) = [one for one in diagnosis.findings if one.rule == rule]
    assert words in finding.verdict
    assert (finding.level, len(finding.cure) > 5) == (level, True)
    assert diagnosis.is_healthy == (level == NOTE)
    if level != NOTE and finding is diagnosis.findings[0]:
        assert words[1:] in diagnosis.verdict


def test_every_rule_has_a_case() -> None:
    found = {one.rule for case in CASES for one in diagnose(case[2]).findings}
    assert found == {case[0] for case in CASES}
    assert len({case[0] for case in CASES}) > 40
    assert len(RULES) >= 40


def test_a_cause_comes_before_what_follows_from_it() -> None:
    seen = on_ways(HERE, THERE, multicast=NONE, announced=None)
    seen = replace(seen, machine=replace(seen.machine, blocking=("-A OUTPUT -d 224.0.0.0/4 -j DROP",)))
    assert [one.rule for one in diagnose(seen).findings] == ["firewall", "multicast-one-way"]


def test_a_healthy_network_gives_no_finding_at_all() -> None:
    for seen in (healthy(), healthy(KITCHEN), healthy(KITCHEN, HALL, ATTIC)):
        diagnosis = diagnose(seen)
        assert (diagnosis.findings, diagnosis.is_healthy, diagnosis.cure) == ([], True, "")
    assert diagnosis.verdict == "All is well: 3 endpoints answered, and all ways between 3 machines work."
    assert diagnose(healthy(KITCHEN)).verdict == "All is well: 1 endpoint answered, all on this machine."


def test_nothing_seen_is_no_fault() -> None:
    diagnosis = diagnose(replace(healthy(), endpoints=(), senders=(), ways=()))
    assert diagnosis.is_healthy
    assert diagnosis.verdict == "Nothing is wrong on this machine, but no endpoint answered."


def test_one_lost_ping_is_no_loss() -> None:
    assert diagnose(on_ways(HERE, THERE, unicast=(23, 24))).is_healthy


def test_much_loss_is_told_on_a_busy_machine_too() -> None:
    seen = replace(on_ways((HALL,), (ATTIC,), unicast=(10, 24)), busy=True)
    assert [one.rule for one in diagnose(seen).findings] == ["loss"]


def test_round_trips_of_busy_machines_may_take_longer() -> None:
    seen = on_ways((HALL,), (ATTIC,), round_trip=0.05)
    assert [one.rule for one in diagnose(seen).findings] == ["slow"]
    busy = tuple(replace(one, load=4.0) if one.id == ATTIC.id else one for one in seen.endpoints)
    assert diagnose(replace(seen, endpoints=busy)).is_healthy


def test_findings_are_plain_data() -> None:
    finding = Finding("a", FAULT, "b", "c")
    assert finding.details == {}


def test_an_endpoint_without_an_address_of_its_own_is_in_no_subnet() -> None:
    far = replace(HALL, address="10.9.0.2")
    for others in ((replace(KITCHEN, here=False, address=""), far), (far, replace(ATTIC, address="no address"))):
        assert in_other_subnet(healthy(*others)) == [far]
    assert in_other_subnet(healthy(replace(HALL, address="fe80::9%eth0"), replace(ATTIC, address="fd01::2"))) == []
    for text in ("10.0.0.1", "10.0.0.1/16"):  # one whose length is not known tells nothing
        near = replace(healthy(replace(HALL, address="10.0.9.2")), machine=with_interface(ipv4=(text,)).machine)
        assert in_other_subnet(near) == []
