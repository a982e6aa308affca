"""docs/mqtt-conformance.md: each statement once, each with tests that exist or with a reason."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/mqtt-conformance.md"
ROW = re.compile(r"\| (\d[\d.]*-\d+) \| (.+?) \| (.+) \|")
PROOF = re.compile(r"`(\w+)::(\w+)`(?:, )?")
STATEMENTS = {
    "5": """
        1.5.4:3 1.5.5:1 1.5.7:1 2.1.3:1 2.2.1:2-6 2.2.2:1 3.1.0:2 3.1.2:30 3.1.3:12 3.1.4:6 3.2.0:2 3.2.2:22 3.3.1:13
        3.3.2:20 3.3.4:10 3.4.2:3 3.5.2:3 3.6.1:1 3.6.2:3 3.7.2:3 3.8.1:1 3.8.3:5 3.8.4:8 3.9.2:2 3.9.3:2 3.10.1:1
        3.10.3:2 3.10.4:6 3.11.2:2 3.11.3:2 3.12.4:1 3.14.0:1 3.14.1:1 3.14.2:4 3.14.4:3 3.15.1:1 3.15.2:3 4.1.0:2
        4.2:1 4.3.1:1 4.3.2:5 4.3.3:13 4.4.0:2 4.5.0:2 4.6.0:6 4.7.0:1 4.7.1:2 4.7.2:1 4.7.3:4 4.8.2:6 4.9.0:3
        4.12.0:7 4.12.1:2 4.13.1:1 4.13.2:1 6.0.0:4""",
    "3.1.1": """
        1.5.3:3 2.2.2:2 2.3.1:7 3.1.0:2 3.1.2:24 3.1.3:11 3.1.4:5 3.2.0:1 3.2.2:6 3.3.1:12 3.3.2:3 3.3.4:1 3.3.5:2
        3.6.1:1 3.8.1:1 3.8.3:4 3.8.4:6 3.9.3:2 3.10.1:1 3.10.3:2 3.10.4:6 3.12.4:1 3.14.1:1 3.14.4:3 4.1.0:2 4.3.1:1
        4.3.2:2 4.3.3:2 4.4.0:1 4.5.0:2 4.6.0:6 4.7.1:3 4.7.2:1 4.7.3:4 4.8.0:2 6.0.0:4 7.0.0:2 7.1.1:1 7.1.2:1""",
}
"""How many normative statements each section has, or from which to which number (appendix B of the specifications)."""


def numbers(version: str) -> list[str]:
    found = []
    for entry in STATEMENTS[version].split():
        section, count = entry.split(":")
        first, last = count.split("-") if "-" in count else ("1", count)
        found += [f"{section}-{number}" for number in range(int(first), int(last) + 1)]
    return found


def test_each_statement_names_tests_that_exist_or_a_reason() -> None:
    parts = PAGE.read_text().split("## MQTT ")[1:]
    assert [part.split("\n", 1)[0] for part in parts] == list(STATEMENTS)
    for part, version in zip(parts, STATEMENTS, strict=True):
        rows = ROW.findall(part)
        assert len(rows) == part.count("\n| ") - 1
        assert [number for number, _, _ in rows] == numbers(version)
        for number, _, proof in rows:
            for file, name in PROOF.findall(proof):
                source = Path(__file__).with_name(f"test_{file}.py").read_text()
                assert f"def test_{name}(" in source, number
            rest = PROOF.sub("", proof)
            assert "::" not in rest, number
            assert rest != proof or len(proof) > 10, number
