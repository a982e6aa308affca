"""Golden vectors of a node that sleeps."""

from __future__ import annotations

from glue.contract import Sleep, Subscribe
from tests.golden.scenario import Lan, of, publication, stack


def a_node_that_sleeps() -> dict[str, bytes]:
    """A node falls asleep, a message waits for it, and it asks for that when it wakes up."""
    lan = Lan()
    lan.run(1, "kitchen")
    lan.stacks["attic"] = stack("attic", sleep=60)
    lan.run(1, "attic", Subscribe(1, "attic/#"))
    asleep = lan.run(1, "attic", Sleep(1))
    lan.run(5, "kitchen", publication("attic/lamp", b"on"))
    sent = lan.run(1, "attic", Sleep(2))
    return {
        "asleep": of(asleep, "attic", "discovery", "announce")[0],
        "awake": of(sent, "attic", "discovery", "announce")[0],
        "wake": of(sent, "attic", "transport", "wake")[0],
        "waited": of(sent, "kitchen", "transport", "waited")[0],
    }
