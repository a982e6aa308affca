"""docs/mqtt-conformance.md: each statement once, each with a test that exists or with a reason."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/mqtt-conformance.md"
ROW = re.compile(r"\| (\d[\d.]*-\d+) \| (.+?) \| (.+) \|")
PROOF = re.compile(r"`(\w+)::(\w+)`")


def test_each_statement_names_a_test_that_exists_or_a_reason() -> None:
    parts = PAGE.read_text().split("## MQTT ")[1:]
    assert [part.split("\n", 1)[0] for part in parts] == ["5", "3.1.1"]
    for part, least in zip(parts, (230, 135), strict=True):
        rows = ROW.findall(part)
        assert len(rows) == part.count("\n| ") - 1 >= least
        numbers = [number for number, _, _ in rows]
        assert len(set(numbers)) == len(numbers)
        for number, _, proof in rows:
            found = PROOF.fullmatch(proof)
            if found is not None:
                file, name = found.groups()
                source = Path(__file__).with_name(f"test_{file}.py").read_text()
                assert f"def test_{name}(" in source, number
            else:
                assert "::" not in proof, number
                assert len(proof) > 10, number
