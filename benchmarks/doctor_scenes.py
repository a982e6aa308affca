"""The faults that the doctor has to name, and how each is made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from benchmarks.doctor_places import Make, Place, new_key
from benchmarks.results import ROOT
from glue.simulation import Conditions
from tests.support.cable import Cable
from tests.support.namespaces import ip

MULTICAST = "-m pkttype --pkt-type multicast"


class Fault(NamedTuple):
    """A fault: the rules of which one has to give the verdict, and how it is made on so many hosts."""

    name: str
    rules: tuple[str, ...]
    make: Make
    hosts: int = 2


FAULTS: list[Fault] = []


def fault(name: str, *rules: str, hosts: int = 2) -> Callable[[Make], Make]:
    """Register a function that makes a fault."""

    def register(make: Make) -> Make:
        FAULTS.append(Fault(name, rules, make, hosts))
        return make

    return register


def pair(scene: Place, **hall: Any) -> list[str]:
    """Start an endpoint on each of two hosts."""
    scene.endpoint(1, "kitchen")
    scene.endpoint(2, "hall", **hall)
    return []


def cable(scene: Place, stack: ExitStack, **faults: Any) -> list[str]:
    """Join two hosts by a cable with faults, with an endpoint at each end."""
    one, other = scene.hosts[:2]
    stack.enter_context(Cable(one.namespace, "cable0", other.namespace, "cable0", **faults))
    for host in (one, other):
        host.ip(f"address add 10.78.0.{host.number}/24 dev cable0", "link set cable0 up")
    scene.endpoint(1, "kitchen", interface="cable0")
    scene.endpoint(2, "hall", interface="cable0")
    return ["--interface", "cable0"]


@fault("loss 30 %", "loss")
def _loss(scene: Place, stack: ExitStack) -> list[str]:
    return cable(scene, stack, loss=0.3)


@fault("loss 30 % one way", "loss")
def _loss_one_way(scene: Place, stack: ExitStack) -> list[str]:
    return cable(scene, stack, loss=0.3, back=Conditions(delay=0.0))


@fault("loss 15 %, three machines", "loss", hosts=3)
def _some_loss(scene: Place, stack: ExitStack) -> list[str]:
    scene.iptables(3, "-A INPUT -p udp -m statistic --mode random --probability 0.15 -j DROP")
    scene.endpoint(3, "attic")
    return pair(scene)


@fault("delay 80 ms", "slow")
def _delay(scene: Place, stack: ExitStack) -> list[str]:
    return cable(scene, stack, delay=0.04)


@fault("mtu 1280 at one end", "large-lost")
def _mtu(scene: Place, stack: ExitStack) -> list[str]:
    scene.hosts[1].ip("link set eth0 mtu 1280")
    return pair(scene)


@fault("large datagrams lost on the way", "large-lost")
def _mtu_between(scene: Place, stack: ExitStack) -> list[str]:
    scene.iptables(2, "-A INPUT -p udp -m length --length 1300:65535 -j DROP")
    return pair(scene)


@fault("interface takes no multicast", "interface-unusable", "no-interface")
def _no_multicast(scene: Place, stack: ExitStack) -> list[str]:
    scene.hosts[0].ip("link set eth0 multicast off")
    scene.endpoint(2, "hall")
    return []


@fault("interface down", "interface-unusable", "no-interface")
def _down(scene: Place, stack: ExitStack) -> list[str]:
    scene.hosts[0].link_down()
    scene.endpoint(2, "hall")
    return []


@fault("cable unplugged", "interface-unusable", "no-interface")
def _unplugged(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(1, "kitchen")
    scene.hosts[0].unplug()
    return ["--interface", "eth0"]


@fault("IPv6 only", "interface-unusable", "no-interface")
def _ipv6_only(scene: Place, stack: ExitStack) -> list[str]:
    scene.hosts[0].ip(f"addr del {scene.hosts[0].address}/24 dev eth0")
    return []


@fault("wrong interface", "wrong-interface")
def _wrong_interface(scene: Place, stack: ExitStack) -> list[str]:
    scene.hosts[0].ip(
        "link add eth1 type veth peer name far1", "addr add 10.99.0.1/24 dev eth1", "link set eth1 up",
        "link set far1 up", "route replace default dev eth1",
    )  # fmt: skip
    scene.endpoint(2, "hall")
    return []


@fault("interface that does not exist", "interface-missing")
def _missing(scene: Place, stack: ExitStack) -> list[str]:
    return ["--interface", "eth7"]


@fault("bridge of containers", "container-bridge")
def _docker(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(2, "hall")
    scene.hosts[0].ip(
        "link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0", "link set docker0 up",
        "link add veth9 type veth peer name veth8", "link set veth9 master docker0 up", "link set veth8 up",
        f"addr del {scene.hosts[0].address}/24 dev eth0",
    )  # fmt: skip
    time.sleep(0.5)
    return []


@fault("firewall drops multicast that comes in here", "firewall")
def _firewall_in(scene: Place, stack: ExitStack) -> list[str]:
    scene.iptables(1, "-A INPUT -p udp -m udp --dport 37320 -j DROP")
    return pair(scene)


@fault("firewall drops by default here", "firewall")
def _policy(scene: Place, stack: ExitStack) -> list[str]:
    pair(scene)
    scene.iptables(1, "-A INPUT -i lo -j ACCEPT", "-A INPUT -p tcp --dport 22 -j ACCEPT", "-P INPUT DROP")
    return []


@fault("firewall forbids to send here", "firewall", "sending-refused")
def _firewall_out(scene: Place, stack: ExitStack) -> list[str]:
    pair(scene)
    scene.iptables(1, "-A OUTPUT -p udp -j DROP")
    return []


@fault("no multicast into the other machine", "multicast-one-way", "multicast-stopped")
def _deaf(scene: Place, stack: ExitStack) -> list[str]:
    scene.iptables(2, f"-A INPUT -p udp {MULTICAST} -j DROP")
    return pair(scene)


@fault("no multicast out of one of three", "multicast-one-way", "multicast-stopped", hosts=3)
def _mute(scene: Place, stack: ExitStack) -> list[str]:
    scene.iptables(2, "-A OUTPUT -p udp -d 224.0.0.0/4 -j DROP")
    scene.endpoint(3, "attic")
    return pair(scene)


@fault("multicast blocked both ways", "multicast-blocked")
def _blocked(scene: Place, stack: ExitStack) -> list[str]:
    for host in scene.hosts:
        host.block_multicast()
    scene.endpoint(2, "hall")
    scene.endpoint(1, "kitchen", peers=[scene.hosts[1].address])
    return ["--peer", scene.hosts[1].address]


@fault("multicast stops after a while", "multicast-stopped")
def _stopped(scene: Place, stack: ExitStack) -> list[str]:
    pair(scene)
    time.sleep(1.0)
    ip([f"link set {scene.hosts[1].port} type bridge_slave mcast_flood off"], scene.hosts[1].switch)
    time.sleep(3.0)
    return []


@fault("unicast blocked at the other machine", "unicast-blocked", "one-way-to-doctor")
def _unicast(scene: Place, stack: ExitStack) -> list[str]:
    scene.iptables(2, "-A INPUT -p udp -m pkttype --pkt-type unicast -j DROP")
    return pair(scene)


@fault("unicast blocked here", "one-way-to-doctor", "firewall")
def _unicast_here(scene: Place, stack: ExitStack) -> list[str]:
    scene.iptables(1, "-A INPUT -i eth0 -p udp -m pkttype --pkt-type unicast -j DROP")
    return pair(scene)


@fault("a given address does not answer", "contact-silent")
def _contact(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(1, "kitchen")
    return ["--peer", scene.hosts[1].address]


@fault("a router between", "other-subnet", hosts=3)
def _router(scene: Place, stack: ExitStack) -> list[str]:
    one, router, other = scene.hosts
    router.ip("addr add 10.80.0.2/24 dev eth0")
    other.ip(
        f"addr del {other.address}/24 dev eth0", "addr add 10.80.0.3/24 dev eth0", "route replace default via 10.80.0.2"
    )
    one.ip(f"route replace 10.80.0.0/24 via {router.address}")
    router.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
    for host in scene.hosts:
        host.block_multicast()
    scene.endpoint(3, "attic")
    return ["--peer", "10.80.0.3"]


@fault("another network id", "other-network-id")
def _id(scene: Place, stack: ExitStack) -> list[str]:
    return pair(scene, network_id=2)


@fault("a key beside none", "sealed-beside-plain")
def _key(scene: Place, stack: ExitStack) -> list[str]:
    return pair(scene, key=new_key(stack))


@fault("none beside a key", "plain-beside-sealed")
def _plain(scene: Place, stack: ExitStack) -> list[str]:
    key = new_key(stack)
    scene.endpoint(1, "kitchen", key=key)
    scene.endpoint(2, "hall")
    return ["--key", key]


@fault("another key", "another-key")
def _another_key(scene: Place, stack: ExitStack) -> list[str]:
    key = new_key(stack)
    scene.endpoint(1, "kitchen", key=key)
    scene.endpoint(2, "hall", key=new_key(stack))
    return ["--key", key]


@fault("two endpoints of one name", "duplicate-name")
def _twins(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(1, "kitchen")
    scene.endpoint(2, "kitchen", wait=False)
    scene.wait("kitchen")
    return []


@fault("small receive buffer", "buffer-small", "buffer-limited")
def _small_buffer(scene: Place, stack: ExitStack) -> list[str]:
    return pair(scene, receive_buffer=16384)


@fault("receive buffer overrun", "buffer-full")
def _overrun(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(1, "kitchen", publish=400)
    scene.endpoint(2, "hall", receive_buffer=300_000, slow="nothing")
    process = scene.processes["hall"]
    os.kill(process.pid, signal.SIGSTOP)
    address, group = scene.hosts[0].address, "('239.192.137.1', 37320)"
    scene.hosts[0].run(
        [sys.executable, "-c",
         f"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
         f"s.setsockopt(0, 32, socket.inet_aton('{address}')); "
         f"[s.sendto(b'{{\"glue\":[1,9,\"00\",1,1]}}\\n' + bytes(1000), {group}) for _ in range(2000)]"]
    )  # fmt: skip
    os.kill(process.pid, signal.SIGCONT)
    time.sleep(1.5)
    return []


@fault("clock an hour ahead", "clock-off")
def _clock(scene: Place, stack: ExitStack) -> list[str]:
    return pair(scene, clock=3600)


@fault("clock set while running", "clock-stepped", "clock-off")
def _step(scene: Place, stack: ExitStack) -> list[str]:
    return pair(scene, step=-100)


@fault("another release", "versions-differ")
def _version(scene: Place, stack: ExitStack) -> list[str]:
    return pair(scene, version="0.0.9")


@fault("another version of the wire format", "wire-version")
def _wire(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(1, "kitchen")
    scene.endpoint(2, "hall", wire=2, address=scene.hosts[1].address)
    return []


@fault("another program on the group", "not-glue")
def _junk(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(1, "kitchen")
    scene.endpoint(2, "hall", junk=True, address=scene.hosts[1].address)
    return []


@fault("port in use", "port-taken")
def _port(scene: Place, stack: ExitStack) -> list[str]:
    program = "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 37320)); "
    program += "print('ready', flush=True); sys.stdin.read()"
    process = scene.hosts[0].popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    scene.processes["other"] = process
    scene.wait("other")
    return []


@fault("handlers too slow", "overloaded")
def _slow(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(2, "hall", slow="data", receive_limit=8_000_000)
    scene.endpoint(1, "kitchen", flood="data")
    time.sleep(2.0)
    return []


@fault("multicast copied by a box between", "ttl")
def _ttl(scene: Place, stack: ExitStack) -> list[str]:
    scene.iptables(2, "-t mangle -A POSTROUTING -d 224.0.0.0/4 -j TTL --ttl-set 5")
    return pair(scene)
