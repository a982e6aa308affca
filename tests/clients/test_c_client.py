"""What the client in C alone has, without a network: its size, its limits, its counters, and no allocation."""

from __future__ import annotations

import json
import random
import subprocess

from tests.clients.compiled import FOLDER, Harness, compiled
from tests.clients.datagrams import announcement, bundle, data, datagram, discovery, meet, payloads
from tests.golden.make import FOLDER as GOLDEN

MOST_LINES = 704  # of one .c and one .h together


def test_the_client_does_not_grow() -> None:
    assert sum(len((FOLDER / name).read_text().splitlines()) for name in ("glue.c", "glue.h")) <= MOST_LINES


def test_it_compiles_optimized_without_a_warning() -> None:
    compiled("example", is_sanitized=False)
    compiled("harness", is_sanitized=False)


def test_frames_beyond_its_memory_are_not_acknowledged(client: Harness) -> None:
    meet(client)
    for sequence in range(1, 14):
        client.receive(data(sequence))
    [(_, body)] = client.advance()
    assert json.loads(body) == [1, 9]
    assert client.counters()["NOT_HELD"] == 5


def test_a_larger_message_than_its_memory_is_counted_and_the_next_one_comes(client: Harness) -> None:
    meet(client)
    whole = bundle(b"x" * 30_000, 1)
    parts = [whole[start : start + 1000] for start in range(0, len(whole), 1000)]
    for index, part in enumerate(parts):
        client.receive(data(index, body=part, fragment=[0, 1000, len(whole), index]))
    assert payloads(client.receive(data(len(parts), body=bundle(b"next", 2)))) == ["next"]
    assert client.counters()["TOO_LARGE"] == 1


def test_a_bundle_that_is_larger_than_its_memory_is_handed_up_as_it_comes(client: Harness) -> None:
    meet(client)
    lengths = [number * 37 % 700 for number in range(200)]
    expected = [str(number % 10) * length for number, length in enumerate(lengths)]
    group = {"topic": "t", "sequence": 1, "at": 0, "lengths": lengths}
    whole = json.dumps({"groups": [group]}).encode() + b"\n" + "".join(expected).encode()
    parts = [whole[start : start + 1000] for start in range(0, len(whole), 1000)]
    lines = []
    for index, part in enumerate(parts):
        lines += client.receive(data(index, body=part, fragment=[0, 1000, len(whole), index]))
        client.advance()
    read = [bytes.fromhex(words[9]).decode() if len(words) > 9 else "" for words in lines if words[0] == "message"]
    assert (len(whole) > 60_000, read) == (True, expected)


def test_patterns_that_do_not_fit_an_announcement_are_refused(client: Harness) -> None:
    results = [client.do(f"subscribe {number}/{'x' * 85}")[0][1] for number in range(6)]
    assert results == ["0"] * 4 + ["-3"] * 2
    [(_, body)] = client.advance(100)
    assert len(json.loads(body)["operations"]) == 5
    assert len(body) <= 512


def test_a_peer_with_more_interests_than_it_keeps_is_sent_everything(client: Harness) -> None:
    meet(client, *(f"+topic/{number}" for number in range(9)))
    assert client.do("publish anything x")[-1] == ["result", "1"]


def test_a_full_outbox_is_an_error_and_so_is_a_large_message(client: Harness) -> None:
    meet(client, "+t")
    results = [client.do(f"reliable t {number}")[-1][1] for number in range(9)]
    assert results == ["1"] * 8 + ["-3"]
    assert client.do("publish t " + "x" * 1270) == [["result", "-2"]]
    topics = [client.do(f"publish topic/{number} x")[-1][1] for number in range(16)]
    assert topics == ["0"] * 15 + ["-5"]  # not the error after which a program tries again
    assert client.do("publish t/+ x") == client.do("publish t# x") == client.do("subscribe a/#/b") == [["result", "-1"]]


def test_the_documented_memory_is_that_of_a_client(client: Harness) -> None:
    [[_, memory]] = client.do("memory")
    assert f"{int(memory):,} bytes" in (FOLDER.parents[1] / "docs" / "other-languages.md").read_text()


def test_mutated_datagrams_do_no_harm() -> None:
    files = [str(path) for path in sorted(GOLDEN.glob("*.datagram"))]
    seed = str(random.Random(35).randrange(1, 1 << 40))
    done = subprocess.run([compiled("harness"), seed, "20000", *files], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    counts = {words[2]: int(words[1]) for words in map(str.split, done.stdout.splitlines())}
    assert counts["RECEIVED"] == 20000
    assert min(counts["DELIVERED"], counts["MALFORMED"], counts["FRAGMENTS_IGNORED"], counts["SENT"]) > 10


def test_what_happens_is_counted(client: Harness) -> None:
    meet(client, "+t")
    client.receive(data(0))
    client.receive(data(1, body=bundle(b"later", 5)))
    client.receive(datagram("transport", ["data", 0, 60_000, 0, 0, 0, 1, 2], bundle(b"late", 6, lifespan=50_000)))
    client.receive(data(3, body=bundle(b"x", 1, topic="$glue/anything")))
    client.do("reliable t text")
    client.advance(50)
    found = client.counters()
    counted = {name: found[name] for name in ("DELIVERED", "MISSED", "EXPIRED", "UNWANTED", "RESENT")}
    assert counted == {"DELIVERED": 2, "MISSED": 3, "EXPIRED": 1, "UNWANTED": 1, "RESENT": 1}


def test_the_memory_of_frames_that_a_skip_has_passed_is_used_again(client: Harness) -> None:
    meet(client)
    for start in (1, 21, 41):
        for sequence in range(start, start + 8):
            client.receive(data(sequence))
        [(_, body)] = client.advance()
        assert json.loads(body) == [1, 9]
        client.receive(datagram("transport", ["skip", 1, start + 19]))
        client.advance()


def test_a_peer_whose_interests_fit_in_its_next_epoch_is_not_sent_everything_any_more(client: Harness) -> None:
    meet(client, *(f"+topic/{number}" for number in range(9)))
    client.receive(discovery("announce", announcement("+few", epoch=1, base=1)), way="multicast")
    assert client.do("publish anything x") == [["result", "0"]]
    assert client.do("publish few x")[-1] == ["result", "1"]
