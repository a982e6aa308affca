"""The client in C without a network: each rule of the wire format that it keeps, byte by byte and in virtual time."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.compiled import FOLDER, Harness, compiled, sent
from tests.golden.make import FOLDER as GOLDEN
from tests.golden.make import VECTORS

PEER = "e36759dea8a54260"
LIFE = 1740800000000000
MOST_LINES = 704  # of one .c and one .h together


@pytest.fixture
def client() -> Iterator[Harness]:
    """The client "tiny", which has sent its first announcement."""
    harness = Harness()
    harness.do("subscribe #")
    harness.advance(100)
    yield harness
    harness.end()


def datagram(
    layer: str, entry: list[Any], body: bytes = b"", life: int = LIFE, *, sender: str = PEER, **more: Any
) -> bytes:
    header = {"glue": [1, 1, sender, life, 0], **more, layer: entry}
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + body


def announcement(*operations: str, version: int | None = None, epoch: int = 0, base: int = 0) -> bytes:
    version = len(operations) if version is None else version
    document = {"name": "kitchen", "interval_ms": 1000, "epoch": epoch, "version": version, "previous": 0, "base": base}
    return json.dumps({**document, "operations": operations}).encode()


def discovery(kind: str, body: bytes = b"", token: int = 5, echo: int = 0, life: int = LIFE, *more: Any) -> bytes:
    return datagram("discovery", [token, echo, None, None, *more, kind], body, life)


def bundle(payload: bytes, sequence: int, **more: Any) -> bytes:
    group = {"topic": "t", "sequence": sequence, "at": 0, "length": len(payload), **more}
    return json.dumps({"groups": [group]}).encode() + b"\n" + payload


def data(sequence: int, channel: int = 1, attempt: int = 0, body: bytes | None = None, **more: Any) -> bytes:
    body = bundle(b"%d" % sequence, sequence + 1) if body is None else body
    return datagram("transport", ["data", attempt, 0, 0, 0, 0, channel, sequence], body, **more)


def acknowledgement(channel: int, upto: int, ranges: list[int], window: int = 4096) -> bytes:
    return datagram("transport", ["ack", 0, window, channel, upto], json.dumps(ranges).encode())


def meet(client: Harness, *operations: str) -> int:
    """Let it know the peer, with these interests, as proven; returns its token for the peer."""
    lines = client.receive(discovery("announce", announcement(*operations)), way="multicast")
    [(header, _)] = sent(lines)
    token: int = header["discovery"][0]
    assert header["discovery"][-1] == "answer"
    client.receive(discovery("want", token=8, echo=token))
    return token


def payloads(lines: list[list[str]]) -> list[str]:
    return [bytes.fromhex(words[-1]).decode() for words in lines if words[0] == "message"]


def transports(datagrams: list[tuple[dict[str, Any], bytes]]) -> list[list[Any]]:
    return [header["transport"] for header, _ in datagrams if "transport" in header]


def test_the_client_does_not_grow() -> None:
    assert sum(len((FOLDER / name).read_text().splitlines()) for name in ("glue.c", "glue.h")) <= MOST_LINES


def test_it_compiles_optimized_without_a_warning() -> None:
    compiled("example", is_sanitized=False)
    compiled("harness", is_sanitized=False)


def golden_messages(name: str) -> list[tuple[str, str, bytes]]:
    """Topic, number and bytes of each message of a golden datagram or of fragments, read with Python's JSON."""
    whole = name.startswith(("fragment", "arrow"))
    files = sorted(GOLDEN.glob(f"{name}-?.datagram")) if whole else [GOLDEN / f"{name}.datagram"]
    index, _, rest = b"".join(path.read_bytes().partition(b"\n")[2] for path in files).partition(b"\n")
    found = []
    for group in json.loads(index)["groups"]:
        for number, length in enumerate(group.get("lengths") or [group["length"]] * group.get("count", 1)):
            found.append((group["topic"], str(group["sequence"] + number), rest[:length]))
            rest = rest[length:]
    return found


GOLDEN_MESSAGES = [vector for vector in json.loads(VECTORS.read_bytes()) if vector.get("messages")]


@pytest.mark.parametrize("name", [vector["name"] for vector in GOLDEN_MESSAGES])
def test_it_reads_the_messages_of_the_golden_datagrams(client: Harness, name: str) -> None:
    [vector] = [vector for vector in GOLDEN_MESSAGES if vector["name"] == name]
    base = name.rpartition("-")[0] if "fragment" in vector else name
    client.do("subscribe $glue/#")
    entry, glue = vector["transport"], vector["glue"]
    paths = sorted(GOLDEN.glob(f"{base}-?.datagram")) if "fragment" in vector else [GOLDEN / f"{name}.datagram"]
    header = {"glue": [1, 1, glue["sender"], glue["incarnation"], 0]}
    hello = {**header, "discovery": [5, 0, None, None, "announce"]}
    client.receive(json.dumps(hello).encode() + b"\n" + announcement())
    if "channel" in entry:
        opened = {**header, "transport": ["open", entry["channel"]]}
        [(own, _)] = [each for each in client.advance(1000) if each[0].get("discovery", [""])[-1] == "announce"]
        client.receive(json.dumps(opened).encode() + b"\n" + json.dumps([own["glue"][2]]).encode())
        skipped = {**header, "transport": ["skip", entry["channel"], entry["sequence"] - len(paths) + 1]}
        client.receive(json.dumps(skipped).encode() + b"\n")
    lines = [line for path in paths for line in client.receive(path.read_bytes()) if line[0] == "message"]
    read = [(words[2], words[3], bytes.fromhex(words[9]) if len(words) > 9 else b"") for words in lines]
    assert read == golden_messages(base)


def test_golden_discovery_is_understood(client: Harness) -> None:
    answer = (GOLDEN / "answer.datagram").read_bytes()
    [(header, _)] = sent(client.receive(answer))
    assert header["discovery"][1] == 2099465393  # the token is returned at once
    assert header["discovery"][2:] == [None, None, "want"]
    assert "MALFORMED" not in client.counters()


def test_a_newcomer_is_answered_and_its_announcements_are_not(client: Harness) -> None:
    [(header, body)] = sent(client.receive(discovery("announce", announcement()), way="multicast"))
    assert header["discovery"][1:] == [5, None, None, "answer"]
    assert json.loads(body)["operations"] == ["+#"]
    client.receive(discovery("want", token=8, echo=header["discovery"][0]))
    assert client.receive(discovery("announce", announcement()), way="multicast") == []


def test_frames_are_delivered_in_order_and_once_and_gaps_are_acknowledged(client: Harness) -> None:
    meet(client)
    assert payloads(client.receive(data(0))) == ["0"]
    assert payloads(client.receive(data(2)) + client.receive(data(3)) + client.receive(data(2))) == []
    [(header, body)] = client.advance()
    assert (header["transport"], json.loads(body)) == (["ack", 0, 16, 1, 1], [1, 3])
    assert payloads(client.receive(data(1, attempt=1))) == ["1", "2", "3"]
    assert payloads(client.receive(data(1, attempt=2))) == []
    [(header, body)] = client.advance()
    assert (header["transport"], json.loads(body)) == (["ack", 0, 16, 1, 4], [])
    assert payloads(client.receive(data(20))) == []
    assert client.counters()["BEYOND_WINDOW"] == 1


def test_frames_beyond_its_memory_are_not_acknowledged(client: Harness) -> None:
    meet(client)
    for sequence in range(1, 14):
        client.receive(data(sequence))
    [(_, body)] = client.advance()
    assert json.loads(body) == [1, 9]
    assert client.counters()["NOT_HELD"] == 5


def test_a_hole_is_reported_with_the_message_behind_it(client: Harness) -> None:
    meet(client)
    client.receive(data(0))
    [words] = client.receive(data(1, body=bundle(b"later", 5)))
    assert words[4] == "3"  # the messages 2 to 4 will not come
    client.receive(data(3, body=bundle(b"after the skip", 8)))
    [words] = client.receive(datagram("transport", ["skip", 1, 3]))
    assert (words[4], client.counters()["MISSED"]) == ("2", 5)
    assert transports(client.advance()) == [["ack", 0, 16, 1, 4]]


def test_messages_behind_a_later_one_are_dropped_also_on_another_channel(client: Harness) -> None:
    meet(client)
    client.receive(data(0, body=bundle(b"five", 5)))
    assert payloads(client.receive(data(0, channel=2, body=bundle(b"four", 4)))) == []
    assert payloads(client.receive(data(1, channel=2, body=bundle(b"four", 4, unordered=1)))) == ["four"]
    assert payloads(client.receive(data(2, channel=2, body=bundle(b"kept", 6, retain=2)))) == ["kept"]


def test_expired_messages_and_those_of_other_topics_are_dropped(client: Harness) -> None:
    meet(client)
    late = datagram("transport", ["data", 0, 60_000, 0, 0, 0, 1, 0], bundle(b"late", 1, lifespan=50_000))
    assert client.receive(late) == []
    assert client.receive(data(1, body=bundle(b"x", 1, topic="$glue/anything"))) == []
    assert client.counters()["EXPIRED"] == client.counters()["UNWANTED"] == 1


def test_best_effort_is_delivered_in_any_order_and_once(client: Harness) -> None:
    meet(client)
    best = [datagram("transport", ["best", 0, number], bundle(b"%d" % number, number + 1)) for number in range(3)]
    lines = [line for number in (0, 2, 2, 1, 0) for line in client.receive(best[number])]
    assert payloads(lines) == ["0", "2", "1"]
    fragment = datagram("transport", ["best", 0, 3], b"x" * 10, fragment=[1, 10, 15, 0])
    assert client.receive(fragment) == []
    assert client.counters()["FRAGMENTS_IGNORED"] == 1


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


def test_a_message_in_fragments_that_waits_for_the_memory_is_handed_up_once_it_is_free(client: Harness) -> None:
    meet(client)
    first, second = bundle(b"x" * 1500, 1), bundle(b"y" * 1500, 2)
    ahead = [data(index, body=first[1000 * index :][:1000], fragment=[0, 1000, len(first), index]) for index in (0, 1)]
    behind = [
        data(index + 1, channel=2, body=second[1000 * index :][:1000], fragment=[1, 1000, len(second), index])
        for index in (0, 1)
    ]
    client.receive(ahead[0])
    for frame in behind:
        client.receive(frame)  # before the frame 0 of their channel
    assert payloads(client.receive(data(0, channel=2, body=bundle(b"small", 3, topic="u")))) == ["small"]
    assert payloads(client.receive(ahead[1])) == ["x" * 1500]
    lines = client.do("advance 0")
    assert payloads(lines) == ["y" * 1500]
    assert ["ack", 0, 16, 2, 3] in transports(sent(lines))


def test_the_memory_for_fragments_is_free_again_when_the_rest_of_a_message_is_skipped(client: Harness) -> None:
    meet(client)
    whole = bundle(b"y" * 1500, 1)
    client.receive(data(0, body=whole[:1000], fragment=[0, 1000, len(whole), 0]))
    client.receive(datagram("transport", ["skip", 1, 2]))
    parts = [data(at, 2, body=whole[1000 * at :][:1000], fragment=[1, 1000, len(whole), at]) for at in (0, 1)]
    assert payloads([line for part in parts for line in client.receive(part)]) == ["y" * 1500]


def test_a_frame_without_an_index_is_counted_and_the_next_one_comes(client: Harness) -> None:
    meet(client)
    client.receive(data(0, body=b"no newline"))
    client.receive(data(1, body=b"none", fragment=[0, 1000, 4, 0]))
    assert client.counters()["MALFORMED"] == 2
    assert payloads(client.receive(data(2))) == ["2"]


def test_a_group_is_joined_by_its_members_alone(client: Harness) -> None:
    meet(client)
    frame = datagram("transport", ["group", 0, 0, 0, 0, 0, 9, 0], bundle(b"to the group", 1))
    assert client.receive(frame, way="multicast") == []
    [(own, _), *_] = client.advance(1000)
    identity = own["glue"][2]
    client.receive(datagram("transport", ["open", 9], json.dumps([PEER, identity]).encode()), way="multicast")
    assert transports(client.advance()) == [["ack", 0, 16, 9, 0]]
    assert payloads(client.receive(frame, way="multicast")) == ["to the group"]


def test_reliable_messages_are_sent_again_until_they_are_acknowledged(client: Harness) -> None:
    meet(client, "+home/+/x")
    lines = [client.do(f"reliable home/a/x {text}") for text in ("one", "two", "three")]
    assert [line[-1] for line in lines] == [["result", "1"]] * 3
    [channel] = {entry[6] for line in lines for entry in transports(sent(line))}
    assert [entry[7] for line in lines for entry in transports(sent(line))] == [0, 1, 2]
    assert transports(sent(client.receive(acknowledgement(channel, 1, [1, 2])))) == []
    assert transports(client.advance(30)) == [["data", 1, 30, 0, 0, 0, channel, 1]]  # the third is there, so it is lost
    assert client.do("counters")[-2][1:] == ["1", "RESENT"]
    client.receive(acknowledgement(channel, 3, []))
    assert transports(client.advance(5000)) == []


def test_each_of_two_receivers_gets_a_message_until_it_acknowledges_it_itself(client: Harness) -> None:
    channels = {}
    for port, sender in ((37319, PEER), (37318, "f" * 16)):
        hello = datagram("discovery", [5, 0, None, None, "announce"], announcement("+t"), sender=sender)
        [(header, _)] = sent(client.receive(hello, port=port))
        client.receive(datagram("discovery", [5, header["discovery"][0], None, None, "want"], sender=sender), port=port)
    lines = client.do("reliable t text")
    for words, (header, _) in zip([words for words in lines if words[0] == "sent"], sent(lines), strict=True):
        if "transport" in header:
            channels[int(words[1])] = header["transport"][6]
    client.receive(acknowledgement(channels[37319], 1, []))
    again = client.do("advance 40")
    assert [words[1] for words, (header, _) in zip(again, sent(again), strict=True) if "transport" in header] == [
        "37318"
    ]
    done = datagram("transport", ["ack", 0, 4096, channels[37318], 1], b"[]", sender="f" * 16)
    client.receive(done, port=37318)
    assert transports(client.advance(400)) == []


def test_a_stranger_is_sent_no_more_datagrams_than_it_sent(client: Harness) -> None:
    lines = client.receive(discovery("announce", announcement("+t", version=9)), way="multicast")
    lines += [line for _ in range(50) for line in client.do("advance 100")]  # silent, and its interests are missing
    lines += client.do("reliable t text")
    assert [words[1] for words in lines if words[0] == "sent"].count("37319") == 1


def test_nobody_is_sent_what_nobody_wants(client: Harness) -> None:
    meet(client, "+home/+/x", "+$glue/sample/1000/50/#")
    assert client.do("reliable home/a/y text") == [["result", "0"]]
    assert client.do("publish other text") == [["result", "0"]]


def test_interests_change_by_numbered_operations_and_missing_ones_are_asked_for(client: Harness) -> None:
    meet(client, "+a")
    client.receive(discovery("announce", announcement("+c", version=3)), way="multicast")
    [(header, _)] = [each for each in client.advance() if each[0]["discovery"][-1] == "want"]
    assert header["discovery"][2:4] == [0, 1]
    assert client.do("publish c x") == [["result", "0"]]
    log = {"epoch": 0, "first": 1, "last": True, "operations": ["-a", "+c"]}
    client.receive(datagram("discovery", [8, 0, None, None, "operations"], json.dumps(log).encode()))
    assert client.do("publish c x")[-1] == ["result", "1"]
    assert client.do("publish a x") == [["result", "0"]]
    client.receive(discovery("announce", announcement("+d", version=2, epoch=1, base=1)), way="multicast")
    assert client.do("publish a x")[-1] == ["result", "1"]  # everything, until the new set is known


def test_patterns_that_do_not_fit_an_announcement_are_refused(client: Harness) -> None:
    results = [client.do(f"subscribe {number}/{'x' * 85}")[0][1] for number in range(6)]
    assert results == ["0"] * 4 + ["-3"] * 2
    [(_, body)] = client.advance(100)
    assert len(json.loads(body)["operations"]) == 5
    assert len(body) <= 512


def test_a_peer_with_more_interests_than_it_keeps_is_sent_everything(client: Harness) -> None:
    meet(client, *(f"+topic/{number}" for number in range(9)))
    assert client.do("publish anything x")[-1] == ["result", "1"]
    client.receive(discovery("announce", announcement("+few", epoch=1)), way="multicast")
    assert client.do("publish anything x") == [["result", "0"]]  # its interests fit again


def test_a_new_pattern_is_announced_at_once_and_then_a_few_times(client: Harness) -> None:
    client.advance(1000)
    client.do("subscribe new")
    told = [json.loads(body)["operations"] for _ in range(60) for _, body in client.advance(10)]
    assert told == [["+#", "+new"]] * 3


def test_a_message_is_given_up_in_the_end_and_the_next_ones_are_delivered(client: Harness) -> None:
    meet(client, "+t")
    [(header, _)] = sent(client.do("reliable t lost"))
    channel = header["transport"][6]
    for _ in range(99):
        client.receive(discovery("announce", announcement("+t")), way="multicast")  # but it acknowledges nothing
        client.advance(100)
    client.do("reliable t next")
    entries = transports(client.advance(100)) + transports(client.advance(1))
    assert client.counters()["GIVEN_UP"] == 1
    assert entries[-1][6:] != [channel, 1]
    assert entries[-1][7] == 0  # on a new channel


def test_a_full_outbox_is_an_error_and_so_is_a_large_message(client: Harness) -> None:
    meet(client, "+t")
    results = [client.do(f"reliable t {number}")[-1][1] for number in range(9)]
    assert results == ["1"] * 8 + ["-3"]
    assert client.do("publish t " + "x" * 1270) == [["result", "-2"]]
    topics = [client.do(f"publish topic/{number} x")[-1][1] for number in range(16)]
    assert topics == ["0"] * 15 + ["-5"]  # not the error after which a program tries again
    assert client.do("publish t/+ x") == client.do("publish t# x") == client.do("subscribe a/#/b") == [["result", "-1"]]


def test_a_receiver_that_forgot_the_channel_gets_a_new_one(client: Harness) -> None:
    meet(client, "+t")
    [(header, _)] = sent(client.do("reliable t one"))
    channel = header["transport"][6]
    client.receive(acknowledgement(channel, 1, []))
    client.do("reliable t two")
    client.advance(600)  # what is older than that was overtaken
    for _ in range(5):
        client.receive(acknowledgement(channel, 0, [1, 2]))
    [entry] = transports(client.advance())
    assert (entry[6] > channel, entry[7]) == (True, 0)


def test_what_is_held_behind_a_gap_is_sent_again_when_the_gap_is_given_up(client: Harness) -> None:
    meet(client, "+#")
    client.do("reliable t lost")
    [[_, _, _, _, _, _, channel, _], *_] = transports(client.advance(3000))
    client.do("reliable t held")
    client.do("reliable t too")
    client.receive(acknowledgement(channel, 0, [1, 3]))
    assert {entry[-1] for entry in transports(client.advance(500))} == {0}, "what it holds is not sent again"
    again: list[tuple[list[Any], bytes]] = []
    for _ in range(10):
        client.receive(discovery("announce", announcement("+#")), way="multicast")
        again += [(header["transport"], body) for header, body in client.advance(900) if "transport" in header]
    found = {entry[-1]: body.rpartition(b"\n")[2] for entry, body in again if entry[-2] != channel}
    assert found == {0: b"held", 1: b"too"}


def test_acknowledgements_that_were_overtaken_change_nothing(client: Harness) -> None:
    meet(client, "+#")
    for text in ("a", "b", "c"):
        client.do(f"reliable t {text}")
    [[_, _, _, _, _, _, channel, _], *_] = transports(client.advance(300))
    client.receive(acknowledgement(channel, 2, []))
    lines = [line for _ in range(20) for line in client.receive(acknowledgement(channel, 1, []))]
    assert {entry[-2] for entry in transports(sent(lines) + client.advance(300))} == {channel}


def test_a_goodbye_needs_the_token(client: Harness) -> None:
    token = meet(client, "+t")
    client.receive(discovery("goodbye", token=0, echo=token + 1))
    probes = [header["discovery"] for header, _ in client.advance() if header["discovery"][-1] == "probe"]
    assert [probe[-2] for probe in probes] == [PEER]
    assert client.do("publish t x")[-1] == ["result", "1"]
    client.receive(discovery("goodbye", token=0, echo=token))
    assert client.do("publish t x") == [["result", "0"]]


def test_a_silent_peer_is_probed_and_then_gone(client: Harness) -> None:
    meet(client, "+t")
    kinds = [header["discovery"][-1] for _ in range(60) for header, _ in client.advance(100)]
    assert 10 <= kinds.count("probe") <= 16
    assert client.do("publish t x") == [["result", "0"]]


@pytest.mark.parametrize("leaving", ["silence", "goodbye", "restart"])
def test_what_a_peer_that_left_has_not_acknowledged_is_counted(client: Harness, leaving: str) -> None:
    token = meet(client, "+t")
    client.do("reliable t lost")
    if leaving == "silence":
        client.advance(6000)
    elif leaving == "goodbye":
        client.receive(discovery("goodbye", token=0, echo=token))
    else:
        [(probe, _)] = sent(client.receive(discovery("announce", announcement(), life=LIFE + 1), way="multicast"))
        client.receive(discovery("answer", announcement(), token=9, echo=probe["discovery"][0], life=LIFE + 1))
    client.advance(6000)
    client.advance()
    assert client.counters()["GIVEN_UP"] == 1


def test_strangers_who_prove_nothing_keep_no_place_from_a_newcomer(client: Harness) -> None:
    meet(client, "+t")
    for number in range(8):
        hello = datagram("discovery", [5, 0, None, None, "announce"], announcement(), sender=f"{number:016}")
        client.receive(hello, way="multicast", port=5000)
    newcomer = datagram("discovery", [5, 0, None, None, "announce"], announcement("+u"), sender="f" * 16)
    assert client.receive(newcomer, way="multicast") == []
    client.advance(1001)
    [(header, _)] = sent(client.receive(newcomer, way="multicast"))
    assert header["discovery"][-1] == "answer"
    assert client.counters()["TOO_MANY_PEERS"] == 2
    assert client.do("publish t x")[-1] == ["result", "1"]  # the peer that has proved itself stays


def test_another_life_has_to_return_a_token(client: Harness) -> None:
    meet(client)
    client.receive(data(0))
    client.receive(datagram("transport", ["best", 0, 0], bundle(b"best", 2)))
    [(probe, _)] = sent(client.receive(discovery("announce", announcement(), life=LIFE + 1), way="multicast"))
    assert client.receive(data(0, life=LIFE + 1)) == []
    token = probe["discovery"][0]
    client.receive(discovery("answer", announcement(), token=9, echo=token, life=LIFE + 1))
    assert payloads(client.receive(data(0, life=LIFE + 1))) == ["0"]
    assert client.receive(data(1)) == []  # of the life before
    best = datagram("transport", ["best", 0, 0], bundle(b"best", 2), life=LIFE + 1)
    assert payloads(client.receive(best) + client.receive(best)) == ["best"]


def test_data_from_another_address_is_dropped(client: Harness) -> None:
    meet(client)
    assert client.receive(data(0), port=5000) == []
    assert client.counters()["UNKNOWN_SENDER"] == 1


def test_it_says_goodbye_to_each_peer_twice_and_to_all_once(client: Harness) -> None:
    meet(client)
    lines = client.do("goodbye")
    assert [header["discovery"][-1] for header, _ in sent(lines)] == ["goodbye"] * 3
    assert [words[1] for words in lines] == ["37319", "37319", "37320"]


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
