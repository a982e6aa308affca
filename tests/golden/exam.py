"""Two endpoints of which one asks the other for a section, and has both ping each other: the datagrams of the exam."""

from __future__ import annotations

from typing import Any

from tests.golden.scenario import Lan, of


def exam_datagrams() -> dict[str, bytes]:
    """What is kept as golden vectors of the exam, by name."""
    lan = Lan()
    lan.run(1, "kitchen")
    lan.run(1, "hall")
    exams: list[Any] = [lan.stacks[name].layers["discovery"].examined.exam for name in ("kitchen", "hall")]  # type: ignore[attr-defined]
    exams[1].sections = lambda section: {"name": "hall", "version": "0.1.0", "counters": {}}
    exams[0].ask(["report"], 1.0)
    asked = lan.run(1, "kitchen")
    exams[0].start_round(5)
    pinged = lan.run(1, "kitchen")
    question, *_ = of(asked, "kitchen", "discovery", "examine")
    (answer,) = of(asked, "hall", "discovery", "examine")
    order, _, ping, *_ = of(pinged, "kitchen", "discovery", "examine")
    pong = next(data for data in of(pinged, "hall", "discovery", "examine") if b'"pong"' in data)
    return {
        "examine-ask": question,
        "examine-answer": answer,
        "examine-round": order,
        "examine-ping": ping,
        "examine-pong": pong,
    }
