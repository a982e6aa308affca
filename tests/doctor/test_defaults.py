"""What the doctor takes for granted where nothing was seen, what it writes, and which rules of a firewall it passes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from glue.doctor import EndpointSeen, PathSeen, Seen
from glue.doctor.firewall import blocking
from glue.doctor.names import of, some
from glue.doctor.names import seconds as rounded
from glue.doctor.seen import InterfaceSeen, MachineSeen, SenderSeen, Way

PORTS = (37320, 37319)


def test_a_machine_that_has_seen_nothing_is_healthy() -> None:
    assert Seen().as_dict() == {
        "machine": {
            "host": "here", "interfaces": (), "wanted": None, "chosen": None, "reason": "", "is_ipv6": False,
            "group": "239.192.137.1", "port": 37320, "failure": "", "port_taken": False, "in_container": False,
            "looped": True, "blocking": (), "firewall_read": True, "strict_reverse_path": False,
            "snooping_without_querier": False, "may_capture": True, "unsent": {},
        },
        "network_id": 1, "sealed": False, "senders": (), "endpoints": (), "ways": (), "contacts": (), "met": (),
        "busy": False, "seconds": 0.0,
    }  # fmt: skip
    assert Seen(
        machine=MachineSeen(interfaces=(InterfaceSeen(name="e"),)), senders=(SenderSeen(address="a", port=5),),
        endpoints=(EndpointSeen(name="n", id="i", paths=(PathSeen(peer="p", link="l"),)),),
        ways=(Way(source="s", target="t"),),
    ).as_dict() == {
        **Seen().as_dict(),
        "machine": {
            **Seen().as_dict()["machine"],
            "interfaces": ({
                "name": "e", "up": True, "carrier": True, "multicast": True, "loopback": False, "virtual": False,
                "kind": "", "mtu": 1500, "ipv4": (), "ipv6": (), "power_saving": None, "heard": 0, "errors": 0,
            },),
        },
        "senders": ({
            "address": "a", "port": 5, "count": 1, "interface": "", "ttl": 1, "network_id": 1, "version": 1,
            "sealed": False, "key_id": None, "id": None, "name": "", "lives": 0,
        },),
        "endpoints": ({
            "name": "n", "id": "i", "address": "", "is_doctor": False, "answered": True, "here": False, "proven": True,
            "version": "", "interface": "", "reason": "", "mtu": 1500, "buffer_asked": 33_554_432,
            "buffer_granted": 33_554_432, "network_id": 1, "sealed": False, "epoch": None, "announce_interval": 1.0,
            "load": 0.0, "clock_offset": 0.0, "clock_moved": 0.0, "waiting": 0, "receive_limit": 33_554_432,
            "counters": {}, "links": {},
            "paths": ({
                "peer": "p", "link": "l", "carries": False, "answers": True, "round_trip": 0.0, "loss": 0.0,
            },),
        },),
        "ways": ({
            "source": "s", "target": "t", "multicast": (0, 0), "large_multicast": (0, 0), "unicast": None,
            "large_unicast": None, "round_trip": None, "announced": None, "known": True,
        },),
    }  # fmt: skip


def test_what_was_seen_comes_back_from_a_file_and_what_is_unknown_is_left_out() -> None:
    seen = Seen(
        machine=MachineSeen(chosen="e", interfaces=(InterfaceSeen(name="e", ipv4=("10.0.0.1/24",)),)),
        endpoints=(
            EndpointSeen(name="n", id="i", is_doctor=True, paths=(PathSeen(peer="p", link="l"),)),
            EndpointSeen(name="m", id="j", counters={"network": {"a": 2, "b": 3, "c": 4}}),
        ),
        ways=(Way(source="i", target="j", multicast=(1, 2)),), senders=(SenderSeen(address="a", port=5),),
        contacts=("x",), seconds=4.5,
    )  # fmt: skip
    written: dict[str, Any] = json.loads(json.dumps(seen.as_dict()))
    written["later"] = written["machine"]["later"] = written["endpoints"][0]["later"] = 1
    again = Seen.from_dict(written)
    assert again == seen
    assert (again.doctor, again.others) == (seen.endpoints[0], seen.endpoints[1:])
    assert (again.endpoint("j"), again.endpoint("k")) == (seen.endpoints[1], None)
    assert again.machine.interface("e") == seen.machine.interfaces[0]
    assert (again.machine.interface("f"), again.machine.interface(None)) == (None, None)
    assert seen.endpoints[1].counted("network", "a", "c", "d") == 6
    assert seen.endpoints[1].counted("topics", "a") == 0
    assert Seen.from_dict({}) == Seen()


@pytest.mark.parametrize(
    ("rule", "hurts"),
    [
        ("-A INPUT -p udp --dport 37319 -j REJECT", True),
        ("-A INPUT -p udp --sport 37320 -j DROP", True),
        ("-A INPUT -p udp -m multiport --dports 1,2,37320 -j DROP", True),
        ("-A INPUT -p udp --dport 37321:65535 -j DROP", False),
        ("-A INPUT -p udp --dport 37320:99999 -j DROP", True),
        ("-A INPUT -p udp --dport 1:37318 -j DROP", False),
        ("-A INPUT -p udp --dport 1:37319 -j DROP", True),
        ("-A OUTPUT -d 239.0.0.0/8 -p udp -j DROP", True),
        ("-A OUTPUT -d 239.192.137.1/32 -p udp -j DROP", True),
        ("-A OUTPUT -d 1239.192.137.1/32 -p udp -j DROP", False),
        ("-A OUTPUT -d 10.0.0.1 -p udp -j DROP", False),
        ("-A OUTPUT -d ff00::/8 -j DROP", True),
        ("-A OUTPUT -p igmp -j DROP", False),
        ("-A OUTPUT -p sctp -j DROP", False),
        ("-A INPUT -i lo -j DROP", False),
        ("-A INPUT -p udp -m limit --limit 5/sec -j DROP", False),
        ("-A INPUT -f -j DROP", False),
        ("-A INPUT -p udp -j LOG", False),
        ("-A INPUT -p tcp -j REJECT --reject-with tcp-reset", False),
        ("-A INPUT -p udp -j REJECT --reject-with icmp-host-prohibited", True),
        ("-A INPUT -p udp --dport domain -j DROP", False),
    ],
)
def test_a_rule_hurts_if_it_drops_what_glue_sends_or_gets(rule: str, hurts: bool) -> None:
    assert blocking(f"*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n{rule}\nCOMMIT\n", PORTS) == (
        (rule,) if hurts else ()
    )


def test_a_rule_counts_in_its_chain_alone_and_after_what_that_accepts() -> None:
    drop, accept = "-A {} -p udp -j DROP", "-A {} -p udp -j ACCEPT"
    rules = [accept.format("INPUT"), drop.format("INPUT"), drop.format("OUTPUT"), accept.format("OUTPUT")]
    assert blocking("\n".join(rules), PORTS) == (rules[2],)
    assert blocking(f"{rules[1]}\n*nat\ndrop\n", PORTS) == (rules[1],), "another table is no chain"
    many = [f"-A INPUT -p udp -m comment --comment {number} -j DROP" for number in range(9)]
    assert blocking("\n".join(many), PORTS) == tuple(many[:8])
    policies = ":INPUT DROP [0:0]\n:OUTPUT REJECT [0:0]\n:FORWARD DROP [0:0]\n"
    assert blocking(policies, PORTS) == (":INPUT DROP [0:0]", ":OUTPUT REJECT [0:0]")
    assert blocking(policies + rules[0], PORTS) == (":OUTPUT REJECT [0:0]",)
    for narrow in ("-m conntrack --ctstate RELATED,ESTABLISHED", "-m state --state established"):
        assert len(blocking(f":INPUT DROP [0:0]\n-A INPUT -p udp {narrow} -j ACCEPT\n", PORTS)) == 1


def test_rules_of_a_chain_in_between_neither_hurt_nor_help() -> None:
    before, after = "-A INPUT -p tcp --dport 22 -j ACCEPT", "-A INPUT -p udp -j DROP"
    assert blocking(f"{before}\n-A FORWARD -p udp -j DROP\n-A DOCKER -j REJECT\n", PORTS) == ()
    assert blocking(f"{before}\n-A FORWARD -p udp -j ACCEPT\n{after}\n", PORTS) == (after,)


def test_a_range_of_ports_ends_with_its_last_port_and_no_port_is_beyond_65535() -> None:
    for ports, hurts in (
        ("60000:65535", True), ("60000:65534", False), ("1:99999999999", True), ("65535:70000", True),
        ("65535", True), ("65536:70000", False), ("a:b", False), ("65535:b", True),
    ):  # fmt: skip
        rule = f"-A INPUT -p udp --dport {ports} -j DROP"
        assert blocking(rule, (65_535,)) == (rule,) * hurts, ports


def test_chains_of_nft_are_told_apart_by_their_hooks() -> None:
    text = """table inet filter {
        chain input {
            type filter hook input priority 0; policy drop;
            ct state established,related accept
            ct state invalid drop
            udp dport 53 accept
        }
        chain forward {
            type filter hook forward priority 0; policy drop;
            udp dport 37320 drop
        }
        chain output {
            type filter hook output priority 0; policy accept;
            meta l4proto tcp drop
            udp sport { 37319, 1 } drop
            limit rate 5/second drop
            meta pkttype multicast reject with icmp type host-unreachable
        }
        chain helper {
            udp dport 37320 drop
        }
    }"""
    assert blocking(text, PORTS) == (
        "udp sport { 37319, 1 } drop",
        "meta pkttype multicast reject with icmp type host-unreachable",
        "type filter hook input priority 0; policy drop;",
    )
    assert blocking(text.replace("udp dport 53 accept", "udp dport 37000-38000 accept"), PORTS)[-1].startswith("meta")


def test_names_and_times_are_short() -> None:
    assert [some([*"abcde"][:count]) for count in range(6)] == [
        "", "a", "a and b", "a, b and c", "a, b, c and 1 more", "a, b, c and 2 more",
    ]  # fmt: skip
    assert [rounded(value) for value in (0.0014, 0.9994, 1.0, 99.94, 100.0, 1234.5)] == [
        "1 ms", "999 ms", "1.0 s", "99.9 s", "100 s", "1,234 s",
    ]  # fmt: skip
    assert of(EndpointSeen(name="n", id="i")) == "n"
    assert of(EndpointSeen(name="n", id="i", address="10.0.0.1")) == "n (10.0.0.1)"
