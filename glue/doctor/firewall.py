"""Rules of a firewall that drop what glue sends or gets, in the output of `iptables-save` and `nft list ruleset`.

Only the chains of packets to and from this machine count, with the chains that they jump to, as those of ufw and
firewalld. A rule is taken to hurt if it drops UDP in general, the port of the group, or multicast; in a chain that is
jumped to, only if it names a port. A chain that drops by default is taken to hurt if no rule accepts any of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

DROPPING = re.compile(r"-j (DROP|REJECT)\b|\b(drop|reject)\b")
ACCEPTING = re.compile(r"-j ACCEPT\b|\baccept\b")
MULTICAST = re.compile(
    r"(?<![\d.])(224\.0\.0\.0/4|239\.[\d./]+|239\.0\.0\.0/8)|ff00::/8|pkttype multicast|pkt-type multicast"
)
ANSWER = re.compile(r"--reject-with \S+|reject with .*")
OTHERS = re.compile(r"-p (tcp|icmp|icmpv6|ipv6-icmp|sctp|igmp)\b|\btcp\b|\bicmp|-i lo\b|\"lo\"")
PORTS = re.compile(r"(?:--d?ports?|--dport|dport|--sport|sport) (\{[^}]*\}|\S+)")
IPTABLES_RULE = re.compile(r"-A (\S+)")
IPTABLES_POLICY = re.compile(r":(INPUT|OUTPUT) (DROP|REJECT)\b")
IPTABLES_HOOKS = {"INPUT": "input", "OUTPUT": "output"}
NFT_CHAIN = re.compile(r"chain (\S+) \{")
NFT_HOOK = re.compile(r"type filter hook (input|output)\b.*?(?:policy (\w+))?;?$")
JUMP = re.compile(r"(?:-j|-g|\bjump|\bgoto) (\S+)")
SELDOM = re.compile(r"ctstate INVALID|ct state invalid|-f\b|--limit|limit rate")
"""Conditions under which a rule concerns few packets."""


class _Chain(NamedTuple):
    """A chain: its rules, the hook of packets that come to it ("" for none), and the line of a policy that drops."""

    rules: list[str]
    hook: str = ""
    policy: str = ""


def blocking(text: str, ports: Iterable[int]) -> tuple[str, ...]:
    """The rules that hurt, as they stand in the text; `ports` are those of the group and of unicast."""
    wanted = set(ports)
    found: list[str] = []
    policies: dict[str, str] = {}
    accepting: set[str] = set()
    for table in _tables(text):
        for name, chain in table.items():
            if not chain.hook:
                continue
            if chain.policy:
                policies[chain.hook] = chain.policy
            for line, is_own in _reached(name, table, wanted, set()):
                if not _concerns(line, wanted):
                    continue
                if DROPPING.search(line) and not SELDOM.search(line) and chain.hook not in accepting:
                    if is_own or PORTS.search(line):
                        found.append(line)
                elif ACCEPTING.search(line) and not _is_narrow(line):
                    accepting.add(chain.hook)
    found += [line for hook, line in policies.items() if hook not in accepting]
    return tuple(found[:8])


def _tables(text: str) -> Iterator[dict[str, _Chain]]:
    """The chains of each table by their names."""
    table: dict[str, _Chain] = {}
    name = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith(("table ", "*")):
            yield table
            table, name = {}, ""
        elif policy := IPTABLES_POLICY.match(line):
            table[policy[1]] = _Chain([], IPTABLES_HOOKS[policy[1]], line)
        elif rule := IPTABLES_RULE.match(line):
            table.setdefault(rule[1], _Chain([], IPTABLES_HOOKS.get(rule[1], ""))).rules.append(line)
        elif chain := NFT_CHAIN.match(line):
            name = chain[1]
            table[name] = _Chain([])
        elif line.startswith("}"):
            name = ""
        elif name and (hook := NFT_HOOK.search(line)):
            table[name] = table[name]._replace(hook=hook[1], policy=line if hook[2] == "drop" else "")
        elif name:
            table[name].rules.append(line)
    yield table


def _reached(name: str, table: dict[str, _Chain], ports: set[int], seen: set[str]) -> Iterator[tuple[str, bool]]:
    """The rules of a chain and of those that it jumps to with these ports, each with whether it is the chain's own."""
    seen.add(name)
    for line in table[name].rules:
        jump = JUMP.search(line)
        if jump is None or jump[1] not in table:
            yield line, True
        elif jump[1] not in seen and _takes(line, ports):
            yield from [(inner, False) for inner, _ in _reached(jump[1], table, ports, seen)]


def _concerns(line: str, ports: set[int]) -> bool:
    """Whether a rule is about UDP in general, one of these ports, or multicast."""
    line = ANSWER.sub("", line)
    if not _takes(line, ports):
        return False
    return bool(PORTS.search(line) or MULTICAST.search(line)) or not re.search(r"(-s|-d|saddr|daddr) ", line)


def _takes(line: str, ports: set[int]) -> bool:
    """Whether a rule takes UDP with one of these ports, from some address to some address."""
    written = PORTS.findall(line)
    return not OTHERS.search(line) and (not written or any(_numbers(one) & ports for one in written))


def _is_narrow(line: str) -> bool:
    """Whether a rule accepts only answers of what this machine began, or what it forwards."""
    return bool(re.search(r"ESTABLISHED|established|\bDNAT\b|\bdnat\b", line))


def _numbers(text: str) -> set[int]:
    """The ports that a rule names: one, some, or a range."""
    found: set[int] = set()
    for part in re.split(r"[,{}\s]+", text):
        first, _, last = part.replace(":", "-").partition("-")
        if first.isdigit():
            found |= set(range(int(first), min(int(last), 65535) + 1)) if last.isdigit() else {int(first)}
    return found
