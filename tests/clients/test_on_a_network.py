"""The clients in C and JavaScript beside Python: on loopback, and over a cable that loses, doubles and reorders."""

from __future__ import annotations

import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import glue
from tests.clients.compiled import PATIENCE, Program, node
from tests.golden.make import FOLDER as GOLDEN
from tests.namespaces.endpoints import endpoint
from tests.support.cable import Cable
from tests.support.lan import Ear, Lan
from tests.support.namespaces import needs_namespaces, segment

LANGUAGES = ("c", "node")
SCRIPTS = Path(__file__).parent


@pytest.fixture(params=LANGUAGES)
def program(request: pytest.FixtureRequest, lan: Lan) -> Iterator[Program]:
    """The client "tiny" on the loopback network `lan`; a sanitizer watches the one in C."""
    group, port = lan.settings["multicast_address"].split(":")
    made = Program(request.param, subprocess.Popen, "tiny", "127.0.0.1", group, port, str(lan.settings["network_id"]))
    try:
        yield made
    finally:
        made.kill()


def exchange(program: Program, python: glue.Endpoint, count: int) -> None:
    """Send so many messages of each kind each way: the reliable ones arrive in order, once."""
    reliable, best = Ear(), Ear()
    python.subscribe("from/c/reliable", reliable)
    python.subscribe("from/c/best", best)
    program.do("subscribe to/c/#")
    assert python.wait_for_subscribers("to/c/reliable", 1, PATIENCE)
    for number in range(count):
        python.publish("to/c/reliable", f"{number}".encode())
        python.publish("to/c/best", f"{number}".encode(), reliability="best-effort")
    python.publish("to/c/large", b"x" * 10_000)
    program.wait(f"message {python.name} to/c/large 1 0 reliable 10000 ")
    program.wait(f"message {python.name} to/c/reliable ", count)
    while not any(line.startswith("result 1 reliable") for line in program.lines):
        results = len(program.wait("result"))
        program.do("reliable from/c/reliable first")
        program.wait("result", results + 1)
    for number in range(count):
        program.do(f"reliable from/c/reliable {number}", f"publish from/c/best {number}")
    reliable.wait_until(lambda heard: len(heard) > 0 and heard[-1].payload == b"%d" % (count - 1))
    assert [message.payload for message in reliable.heard if message.payload != b"first"] == [
        b"%d" % number for number in range(count)
    ]
    lines = program.wait(f"message {python.name} to/c/reliable ", count)
    assert lines == [f"{number + 1} 0 reliable {len(str(number))} {number}" for number in range(count)]
    best.wait(count // 4)
    numbers = [int(message.payload) for message in best.heard]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("script", ["renewal", "limits", "mutated"])
def test_the_client_in_javascript_keeps_its_promises_without_a_network(script: str) -> None:
    done = subprocess.run([node(), str(SCRIPTS / f"{script}.mjs")], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_a_peer_that_exchanges_messages_and_says_goodbye(lan: Lan, program: Program) -> None:
    removed = Ear()
    python = lan.make("python")
    python.on_peer_removed = removed
    python.start()
    python.publish("to/c/kept", "kept", retain=True)
    exchange(program, python, 100)
    assert [peer.name for peer in python.peers] == ["tiny"]
    program.wait("message python to/c/kept 1 0 reliable")
    program.do("peers")
    program.wait("peer python 1")
    program.end()
    assert [(peer.name, peer.reason) for peer in removed.wait(1)] == [("tiny", "goodbye")]


def test_several_subscribers_share_a_topic_with_it(lan: Lan, program: Program) -> None:
    publisher, other = lan.start("publisher"), lan.start("other")
    ear = Ear()
    other.subscribe("shared", ear)
    program.do("subscribe shared")
    assert publisher.wait_for_subscribers("shared", 2, PATIENCE)
    for number in range(100):  # to a group, by multicast
        publisher.publish("shared", number)
    ear.wait(100)
    lines = program.wait("message publisher shared ", 100)
    assert [line.split()[-1] for line in lines] == [str(number) for number in range(100)]


def test_a_publisher_that_starts_again_is_heard_again(lan: Lan, program: Program) -> None:
    program.do("subscribe t")
    for life in range(2):
        publisher = lan.start("publisher")
        assert publisher.wait_for_subscribers("t", 1, PATIENCE)
        publisher.publish("t", life)
        program.wait("message publisher t 1 0 reliable 1 ", life + 1)
        publisher.close(timeout=0)


def test_damaged_and_foreign_datagrams_do_it_no_harm(lan: Lan, program: Program) -> None:
    python = lan.start("python")
    program.do("subscribe t")
    assert python.wait_for_subscribers("t", 1, PATIENCE)
    [peer] = python.peers
    assert peer.address is not None
    randomness = random.Random(35)
    network = b'{"glue":[1,%d,' % lan.settings["network_id"]
    originals = [path.read_bytes() for path in sorted(GOLDEN.glob("*.datagram"))]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
        for _ in range(3000):
            datagram = bytearray(randomness.choice(originals).replace(b'{"glue":[1,1,', network))
            for _ in range(randomness.randrange(4)):
                datagram[randomness.randrange(len(datagram))] = randomness.randrange(256)
            attacker.sendto(datagram[: randomness.randrange(len(datagram)) or None], peer.address)
            attacker.sendto(datagram, peer.address)
    python.publish("t", "still there")
    program.wait('message python t 1 0 reliable 13 "still there"')
    program.end()


@pytest.mark.namespaces
@needs_namespaces
@pytest.mark.parametrize("language", LANGUAGES)
def test_reliable_messages_survive_loss_duplicates_and_reordering(language: str) -> None:
    faults: dict[str, Any] = {"loss": 0.15, "duplicate": 0.05, "reorder": 0.1, "reorder_delay": 0.003}
    with segment(2) as (first, second), Cable(first.namespace, "cable0", second.namespace, "cable0", **faults) as laid:
        for host in (first, second):
            host.ip(f"address add 10.78.0.{host.number}/24 dev cable0", "link set cable0 up")
        with endpoint(first, "cable0", name="python") as python:
            program = Program(language, second.popen, "tiny", "10.78.0.2")
            exchange(program, python, 300)
            program.end()
    assert min(laid.counts[way]["lost"] for way in "ab") > 0
