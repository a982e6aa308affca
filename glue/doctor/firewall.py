"""Rules of a firewall that drop what glue sends or gets, in the output of `iptables-save` and `nft list ruleset`.

Only the chains of packets to and from this machine count. A rule is taken to hurt if it drops UDP in general, the port
of the group, or multicast. A chain that drops by default is taken to hurt if none of its rules accepts any of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

DROPPING = re.compile(r"-j (DROP|REJECT)\b|\b(drop|reject)\b")
ACCEPTING = re.compile(r"-j ACCEPT\b|\baccept\b")
MULTICAST = re.compile(
    r"(?<![\d.])(224\.0\.0\.0/4|239\.[\d./]+|239\.0\.0\.0/8)|ff00::/8|pkttype multicast|pkt-type multicast"
)
ANSWER = re.compile(r"--reject-with \S+|reject with .*")
OTHERS = re.compile(r"-p (tcp|icmp|icmpv6|ipv6-icmp|sctp|igmp)\b|\btcp\b|\bicmp|-i lo\b|\"lo\"")
PORTS = re.compile(r"(?:--d?ports?|--dport|dport|--sport|sport) (\{[^}]*\}|\S+)")
IPTABLES_CHAIN = re.compile(r"^-A (INPUT|OUTPUT)\b")
IPTABLES_POLICY = re.compile(r"^:(INPUT|OUTPUT) (DROP|REJECT)\b")
NFT_HOOK = re.compile(r"type filter hook (input|output)\b.*?(?:policy (\w+))?;?$")
SELDOM = re.compile(r"ctstate INVALID|ct state invalid|-f\b|--limit|limit rate")
"""Conditions under which a rule concerns few packets."""


def blocking(text: str, ports: Iterable[int]) -> tuple[str, ...]:
    """The rules that hurt, as they stand in the text; `ports` are those of the group and of unicast."""
    wanted = set(ports)
    found: list[str] = []
    accepts: dict[str, bool] = {}
    policies: dict[str, str] = {}
    chain = ""
    for line in map(str.strip, text.splitlines()):
        if policy := IPTABLES_POLICY.match(line):
            policies[policy[1].lower()] = line
            continue
        if named := IPTABLES_CHAIN.match(line):
            chain = named[1].lower()
        elif line.startswith("-A "):
            continue  # of another chain
        elif hook := NFT_HOOK.search(line):
            chain = hook[1]
            if hook[2] == "drop":
                policies[chain] = line
            continue
        elif line.startswith(("chain ", "table ", "}", "*")):
            chain = ""
            continue
        if not chain:
            continue
        if DROPPING.search(line) and _concerns(line, wanted) and not SELDOM.search(line) and not accepts.get(chain):
            found.append(line)
        elif ACCEPTING.search(line) and _concerns(line, wanted) and not _is_narrow(line):
            accepts[chain] = True
    found += [line for chain, line in policies.items() if not accepts.get(chain)]
    return tuple(found[:8])


def _concerns(line: str, ports: set[int]) -> bool:
    """Whether a rule is about UDP in general, one of these ports, or multicast."""
    line = ANSWER.sub("", line)
    if OTHERS.search(line):
        return False
    if MULTICAST.search(line):
        return True
    if written := PORTS.search(line):
        return bool(_numbers(written[1]) & ports)
    return not re.search(r"(-s|-d|saddr|daddr) ", line)


def _is_narrow(line: str) -> bool:
    """Whether a rule accepts only answers of what this machine began."""
    return bool(re.search(r"ESTABLISHED|established", line))


def _numbers(text: str) -> set[int]:
    """The ports that a rule names: one, some, or a range."""
    found: set[int] = set()
    for part in re.split(r"[,{}\s]+", text):
        first, _, last = part.replace(":", "-").partition("-")
        if first.isdigit():
            found |= set(range(int(first), min(int(last), 65535) + 1)) if last.isdigit() else {int(first)}
    return found
