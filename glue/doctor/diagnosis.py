"""The rules in their order, and the verdict: the sentence of the first fault, or of the first warning.

A rule comes before those whose observation it explains: a closed interface before silence, a firewall before multicast
that does not come, multicast before loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from glue.doctor.endpoint_rules import EARLY_ENDPOINT_RULES, ENDPOINT_RULES
from glue.doctor.finding import LEVELS, NOTE, Finding
from glue.doctor.machine_rules import LATER_MACHINE_RULES, MACHINE_RULES
from glue.doctor.path_rules import PATH_RULES
from glue.doctor.seen import Seen
from glue.doctor.sender_rules import SENDER_RULES
from glue.doctor.way_rules import WAY_RULES

Rule = Callable[[Seen], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    *MACHINE_RULES, *SENDER_RULES, *EARLY_ENDPOINT_RULES, *WAY_RULES, *PATH_RULES, *ENDPOINT_RULES,
    *LATER_MACHINE_RULES,
)  # fmt: skip


class Diagnosis(NamedTuple):
    """The findings of a diagnosis: the verdict in one sentence, its cure, and all findings, the gravest first."""

    verdict: str
    cure: str
    findings: list[Finding]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing but notes was found."""
        return all(one.level == NOTE for one in self.findings)


def diagnose(seen: Seen) -> Diagnosis:
    """Judge what was seen."""
    findings = [finding for rule in RULES for finding in rule(seen)]
    findings.sort(key=lambda one: LEVELS.index(one.level))  # stable: the order of the rules stays
    if findings and findings[0].level != NOTE:
        return Diagnosis(_sentence(findings[0].verdict), _sentence(findings[0].cure), findings)
    answered = [one for one in seen.others if one.answered]
    if answered:
        machines = len({"" if one.here else one.address for one in answered} | {""})
        verdict = f"All is well: {len(answered)} endpoint{'s' * (len(answered) != 1)} answered"
        verdict += f", and all ways between {machines} machines work." if machines > 1 else ", all on this machine."
    else:
        verdict = "Nothing is wrong on this machine, but no endpoint answered."
    return Diagnosis(verdict, "", findings)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
