"""Real sockets over a cable that loses, delays, doubles and reorders frames, and among hosts one of which stops.

`tests/promises/test_robustness.py` says exactly what may happen how fast; here it is only proved that the same
holds with real kernels between: everything arrives, once and in order, and who is bad costs the others nothing.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from glue.simulation import Burst
from tests.namespaces.talkers import Talker
from tests.support.cable import Cable
from tests.support.namespaces import needs_namespaces, segment

pytestmark = [
    pytest.mark.namespaces,
    needs_namespaces,
    pytest.mark.skipif(
        os.environ.get("CI") != "true" and not Path("/dev/net/tun").exists(), reason="needs /dev/net/tun, for a cable"
    ),
]

COUNT = 150
LINKS: dict[str, dict[str, Any]] = {
    "30 % loss": {"loss": 0.3, "delay": 0.002},
    "bursts, jitter, reordering and duplicates": {
        "burst": Burst(enter=0.02, leave=0.2),
        "delay": 0.001,
        "jitter": 0.03,
        "reorder": 0.25,
        "duplicate": 0.5,
    },
    "a slow link": {"rate": 30_000.0, "queue": 0.1, "delay": 0.002},
}


@pytest.mark.parametrize("faults", LINKS.values(), ids=LINKS)
def test_everything_arrives_once_and_in_order_over_a_bad_link(faults: dict[str, Any]) -> None:
    device = "cable0"
    with segment(2) as hosts, Cable(hosts[0].namespace, device, hosts[1].namespace, device, **faults) as cable:
        for host in hosts:
            host.ip(f"addr add 10.78.0.{host.number}/24 dev {device}", f"link set {device} up")
        options = ["--interface", device, "--send-messages", "--rate", "50", "--count", str(COUNT), "--wait-for", "1"]
        talkers = [Talker(host, f"host-{host.number}", *options, "--duration", "60") for host in hosts]
        for talker, other in zip(talkers, reversed(talkers), strict=True):
            talker.wait_until(lambda: len(talker.heard(other.name)) >= COUNT, f"not all of {other.name}")  # noqa: B023
        for talker, other in zip(talkers, reversed(talkers), strict=True):
            assert talker.heard(other.name) == [*range(1, COUNT + 1)]
        for counts in cable.read_counts().values():
            assert counts["lost"] + counts["queue full"] > 0 or "rate" in faults


def test_a_stopped_receiver_does_not_hold_up_the_others_and_catches_up() -> None:
    with segment(4) as hosts:
        publisher = Talker(hosts[0], "publisher", "--send-messages", "--rate", "200", "--wait-for", "3")
        victim, *others = [Talker(host, f"host-{host.number}", "--wait-for", "3") for host in hosts[1:]]
        for talker in (victim, *others):
            talker.wait_for_more([publisher])
        victim.process.send_signal(signal.SIGSTOP)
        before = len(victim.heard("publisher"))
        for talker in others:
            reached = len(talker.heard("publisher")) + 150  # three quarters of a second; the lease ends after one
            talker.wait_until(lambda: len(talker.heard("publisher")) >= reached, "is held up")  # noqa: B023
        victim.process.send_signal(signal.SIGCONT)
        victim.wait_until(lambda: len(victim.heard("publisher")) >= before + 200, "does not catch up")
        for talker in (victim, *others):
            numbers = talker.heard("publisher")
            assert numbers == sorted(set(numbers))
        for talker in others:
            numbers = talker.heard("publisher")
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
