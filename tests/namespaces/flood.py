"""A flood of mutated datagrams on real sockets: three hosts talk while a fourth sends damaged copies of what passes.

The segment is a hub, so the attacker overhears unicast, too. It sends each mutated copy where the original went, from
its own address. The honest endpoints publish at a fixed rate. What is promised: each of them gets all messages of all
in order, nobody is taken for gone, every process ends by itself, and memory stays flat.

    python -m tests.namespaces.flood --seconds 300 --rate 1000    # needs root
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import IO, Any, cast

import glue
from tests.simulation.attack import OVERHEARD, mutate
from tests.support.namespaces import Host, ip, segment

PARTIES = 3
PERIOD = 0.02  # seconds between two messages of a party
LARGE, EVERY = 20_000, 10  # bytes of each tenth message; the others have a hundred
GROWTH = 20e6  # bytes that memory may grow until all bounded tables are full of what the attacker says
PATIENCE = 60.0  # seconds for a party to flush, and then for its process to end
ETHERNET, IPV4, UDP = 14, 20, 8  # bytes of these headers


class Received:
    """Count of a stream's messages, and the first that came out of turn."""

    def __init__(self) -> None:
        self.count = 0
        self.wrong: list[tuple[int, int]] = []

    def take(self, number: int) -> None:
        if number != self.count:
            self.wrong.append((self.count, number))
        self.count = number + 1


def party(name: str, seconds: float) -> None:
    """Be an honest endpoint for this time, and print what it published and received as JSON."""
    honest: dict[str, str] = {}  # names by id
    streams: dict[str, Received] = defaultdict(Received)
    strangers = 0
    gone: list[str] = []
    logging.getLogger("glue").setLevel(logging.CRITICAL)  # mutated announcements are reported as clashes of names
    with glue.Endpoint(name, interface="eth0") as endpoint:

        def remove(peer: glue.Peer) -> None:
            if peer.id in honest:
                gone.append(peer.name)

        endpoint.on_peer_removed = remove

        def take(message: glue.Message) -> None:
            nonlocal strangers
            number = bytes(message.payload).rstrip(b".")
            if message.publisher_id in honest:  # a copy whose id is mutated comes from another publisher of this name
                streams[message.publisher_id].take(int(number))
            else:
                strangers += 1

        endpoint.subscribe("flood/#", take)
        endpoint.wait_for_subscribers("flood/" + name, PARTIES, timeout=PATIENCE)
        honest.update({peer.id: peer.name for peer in endpoint.peers}, **{endpoint.id: name})
        print("ready", flush=True)
        sys.stdin.readline()
        began, number = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            size = 100 if number % EVERY else LARGE
            endpoint.publish(f"flood/{name}", (b"%d" % number).ljust(size, b"."))
            number += 1
            time.sleep(max(0.0, began + number * PERIOD - time.monotonic()))
        flushed = endpoint.flush(PATIENCE)
        print(json.dumps({"published": number, "flushed": flushed}), flush=True)
        sys.stdin.readline()  # all have flushed
        told = {honest[id]: [one.count, one.wrong[:3]] for id, one in streams.items()}
        print(json.dumps({"received": told, "removed": gone, "strangers": strangers}), flush=True)
        sys.stdin.readline()  # all have told: from here on they may leave


class Attacker:
    """Sends mutated copies of what it overhears on its host's interface."""

    def __init__(self, host: Host, random: Random) -> None:
        self._random, self._overheard = random, list[tuple[bytes, tuple[str, int]]]()
        self._own = socket.inet_aton(host.address)
        with host.entered():
            self._ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
            self._ear.bind(("eth0", 0))
            self._mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._ear.setblocking(False)
        self.sent = 0

    def strike(self, count: int) -> None:
        """Overhear what has passed, and send `count` datagrams."""
        self._overhear()
        for _ in range(count if self._overheard else 0):
            original, where = self._random.choice(self._overheard)
            data = mutate(original, self._random)[:1472]
            try:
                self._mouth.sendto(data, where)
            except OSError:  # an address that answers no ARP
                continue
            self.sent += 1

    def _overhear(self) -> None:
        while True:
            try:
                frame = self._ear.recv(65536)
            except BlockingIOError:
                return
            packet = frame[ETHERNET:]
            if packet[9] != socket.IPPROTO_UDP or packet[12:16] == self._own:
                continue
            where = socket.inet_ntoa(packet[16:20]), int.from_bytes(packet[22:24], "big")
            heard = packet[IPV4 + UDP :][:1472], where
            if len(self._overheard) < OVERHEARD:
                self._overheard.append(heard)
            else:
                self._overheard[self._random.randrange(OVERHEARD)] = heard


def memory(process: subprocess.Popen[str]) -> int:
    """Return the resident memory of a process in bytes."""
    pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def flood(seconds: float, rate: float, seed: int) -> list[str]:
    """Let the parties talk under attack, report every ten seconds, and return what was promised and does not hold."""
    with segment(PARTIES + 1) as hosts:
        ip(["link set br0 type bridge ageing_time 0"], hosts[0].namespace.rpartition("-")[0] + "-switch")  # a hub
        names = [f"party{host.number}" for host in hosts[:PARTIES]]
        command = [sys.executable, "-m", "tests.namespaces.flood", "--seconds", str(seconds), "--party"]
        parties = [
            host.popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for host, name in zip(hosts, names, strict=False)
        ]
        attacker = Attacker(hosts[PARTIES], Random(seed))
        for one in parties:
            assert read(one) == "ready"
        answer(parties)
        began, told = time.monotonic(), 0.0
        first = [memory(one) for one in parties]
        while (now := time.monotonic() - began) < seconds:
            attacker.strike(int(rate * now) - attacker.sent)
            if now >= told + 10:
                told = now
                used = ", ".join(f"{memory(one) / 1e6:.1f}" for one in parties)
                print(f"{now:4.0f} s: {attacker.sent:,} mutated datagrams sent; memory {used} MB", flush=True)
            time.sleep(0.01)
        return judged(parties, names, first)


def judged(parties: list[subprocess.Popen[str]], names: list[str], first: list[int]) -> list[str]:
    """End the parties, and return what was promised and does not hold."""
    published = [json.loads(read(one)) for one in parties]
    last = [memory(one) for one in parties]
    answer(parties)
    received = [json.loads(read(one)) for one in parties]
    answer(parties)
    wrong = []
    counts = Counter({name: one["published"] for name, one in zip(names, published, strict=True)})
    for name, said, heard in zip(names, published, received, strict=True):
        wrong += [f"{name} did not flush"] * (not said["flushed"])
        wrong += [f"{name} took {gone} for gone" for gone in heard["removed"]]
        for who, (count, breaks) in heard["received"].items():
            if breaks or count != counts[who]:
                wrong.append(f"{name} got {count:,} of {counts[who]:,} of {who}; (expected, got): {breaks}")
        wrong += [f"{name} got nothing of {who}" for who in counts.keys() - heard["received"].keys()]
    wrong += [
        f"{name} grew from {before / 1e6:.1f} to {after / 1e6:.1f} MB"
        for name, before, after in zip(names, first, last, strict=False)
        if after > before + GROWTH
    ]
    wrong += [
        f"{name} ended with {one.wait(PATIENCE)}"
        for name, one in zip(names, parties, strict=True)
        if one.wait(PATIENCE)
    ]
    strangers = sum(heard["strangers"] for heard in received)
    used = ", ".join(f"{one / 1e6:.1f}" for one in last)
    print(f"published {dict(counts)}; {strangers} messages of mutated ids; memory {used} MB")
    return wrong


def read(process: subprocess.Popen[str]) -> str:
    """Return the next line of a party; it fails if the party has died."""
    line = cast("IO[str]", process.stdout).readline()
    assert line, "a party has died"
    return line.strip()


def answer(parties: list[subprocess.Popen[str]]) -> None:
    """Let the parties go on."""
    for one in parties:
        stdin: Any = one.stdin
        stdin.write("\n")
        stdin.flush()


def main() -> int:
    """Run the flood, or a party of it, and return 0 if all promises held."""
    parser = argparse.ArgumentParser(prog="python -m tests.namespaces.flood")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--rate", type=float, default=1000.0, help="mutated datagrams a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--party", help="be this honest endpoint (used by the program itself)")
    arguments = parser.parse_args()
    if arguments.party:
        party(arguments.party, arguments.seconds)
        return 0
    wrong = flood(arguments.seconds, arguments.rate, arguments.seed)
    print("\n".join(wrong) or "nothing was lost, nobody was taken for gone, memory stayed flat")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
