"""Which rules of a firewall hurt, in the listings of iptables and nft."""

from __future__ import annotations

import pytest

from glue.doctor.firewall import blocking

PORTS = (37320, 37319)
HEAD = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:DOCKER - [0:0]\n"
NFT = "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy %s;\n%s\n\t}\n}\n"


@pytest.mark.parametrize(
    "rule",
    [
        "-A INPUT -p udp -m udp --dport 37320 -j DROP",
        "-A INPUT -p udp -j DROP",
        "-A INPUT -j REJECT --reject-with icmp-port-unreachable",
        "-A OUTPUT -d 224.0.0.0/4 -j DROP",
        "-A INPUT -m pkttype --pkt-type multicast -j DROP",
        "-A INPUT -p udp -m multiport --dports 1000,37319:37400 -j DROP",
        "-A INPUT -i eth0 -p udp -m udp --dport 30000:40000 -j REJECT",
    ],
)
def test_a_rule_that_hurts_is_found(rule: str) -> None:
    assert blocking(f"{HEAD}{rule}\nCOMMIT\n", PORTS) == (rule,)


@pytest.mark.parametrize(
    "rules",
    [
        "",
        "-A INPUT -p tcp -m tcp --dport 22 -j DROP",
        "-A INPUT -p udp -m udp --dport 53 -j DROP",
        "-A INPUT -s 192.0.2.7/32 -j DROP",
        "-A DOCKER -p udp -j DROP",
        "-A FORWARD -j DROP",
        "-A INPUT -m conntrack --ctstate INVALID -j DROP",
        "-A INPUT -p udp -m udp --dport 37319:37320 -j ACCEPT\n-A INPUT -p udp -j DROP",
        "-A INPUT -p icmp -j DROP",
    ],
)
def test_other_rules_do_not_hurt(rules: str) -> None:
    assert blocking(f"{HEAD}{rules}\nCOMMIT\n", PORTS) == ()


def test_a_chain_that_drops_by_default_hurts_unless_it_accepts_udp() -> None:
    policy = HEAD.replace(":INPUT ACCEPT", ":INPUT DROP")
    answers = "-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT\n"
    assert blocking(policy + answers, PORTS) == (":INPUT DROP [0:0]",)
    assert blocking(policy + answers + "-A INPUT -p udp --dport 37320 -j ACCEPT\n", PORTS) == ()


def test_nft_is_read_as_well() -> None:
    assert blocking(NFT % ("accept", "\t\tudp dport 37320 drop"), PORTS) == ("udp dport 37320 drop",)
    assert blocking(NFT % ("accept", "\t\tip daddr 224.0.0.0/4 drop"), PORTS) == ("ip daddr 224.0.0.0/4 drop",)
    assert blocking(NFT % ("accept", "\t\ttcp dport 22 drop"), PORTS) == ()
    assert len(blocking(NFT % ("drop", '\t\tiifname "lo" accept'), PORTS)) == 1
    assert blocking(NFT % ("drop", "\t\tudp dport { 5353, 37319-37320 } accept"), PORTS) == ()


UFW = """*filter
:INPUT DROP [12:800]
:OUTPUT ACCEPT [0:0]
-A INPUT -j ufw-before-logging-input
-A INPUT -j ufw-before-input
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -m conntrack --ctstate INVALID -j DROP
-A ufw-before-input -p udp -m udp --sport 67 --dport 68 -j ACCEPT
-A ufw-before-input -j ufw-not-local
-A ufw-before-input -d 239.255.255.250/32 -p udp -m udp --dport 1900 -j ACCEPT
-A ufw-before-input -j ufw-user-input
-A ufw-not-local -m addrtype --dst-type MULTICAST -j RETURN
-A ufw-not-local -j DROP
-A ufw-user-input -p tcp -m tcp --dport 22 -j ACCEPT
-A ufw-user-input -j ufw-before-input
COMMIT
"""
FIREWALLD = """table inet firewalld {
\tchain filter_INPUT {
\t\ttype filter hook input priority filter + 10; policy accept;
\t\tct state { established, related } accept
\t\tct status dnat accept
\t\tiifname "lo" accept
\t\tct state invalid drop
\t\tjump filter_INPUT_ZONES
\t\treject with icmpx admin-prohibited
\t}
\tchain filter_INPUT_ZONES {
\t\tiifname "eth0" goto filter_IN_public
\t}
\tchain filter_IN_public {
\t\ttcp dport 22 accept
\t\tip daddr 224.0.0.251 udp dport 5353 accept
\t}
}
"""


@pytest.mark.parametrize(
    ("listing", "closing", "shut", "opened"),
    [
        (UFW, ":INPUT DROP [12:800]", "-p tcp -m tcp --dport 22", "-p udp -m udp --dport 37320"),
        (UFW, ":INPUT DROP [12:800]", "-p tcp -m tcp --dport 22", "-s 10.0.0.0/8 -p udp -m udp --dport 37000:38000"),
        (FIREWALLD, "reject with icmpx admin-prohibited", "tcp dport 22", "udp dport { 5353, 37319-37320 }"),
    ],
)
def test_chains_of_ufw_and_firewalld_are_followed(listing: str, closing: str, shut: str, opened: str) -> None:
    assert blocking(listing, PORTS) == (closing,)
    assert blocking(listing.replace(shut, opened), PORTS) == ()


def test_a_chain_that_is_jumped_to_hurts_where_it_names_a_port() -> None:
    denied = "-A ufw-user-input -p udp -m udp --dport 37320 -j DROP"
    listing = UFW.replace("INPUT DROP", "INPUT ACCEPT").replace("COMMIT", denied)
    assert blocking(listing, PORTS) == (denied,)
    assert blocking(listing.replace("-A INPUT -j ufw-before-input", ""), PORTS) == ()


def test_a_chain_that_other_ports_jump_to_opens_none_of_ours() -> None:
    jump = "-A INPUT -p udp -m udp --dport %s -j trusted\n-A trusted -j ACCEPT\nCOMMIT"
    listing = HEAD.replace(":INPUT ACCEPT", ":INPUT DROP")
    assert blocking(listing + jump % "53", PORTS) == (":INPUT DROP [0:0]",)
    assert blocking(listing + jump % "37000:38000", PORTS) == ()


def test_nonsense_hurts_nobody() -> None:
    assert blocking("drop drop drop\n\x00\n-j DROP\n", PORTS) == ()
