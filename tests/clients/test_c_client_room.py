"""The client in C without a network: what it does with its little memory, with strangers, and with who left."""

from __future__ import annotations

import json

import pytest

from tests.clients.compiled import Harness, sent
from tests.clients.datagrams import (
    LIFE,
    PEER,
    acknowledgement,
    announcement,
    bundle,
    data,
    datagram,
    discovery,
    meet,
    payloads,
    transports,
)


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


def test_a_new_pattern_is_announced_at_once_and_then_a_few_times(client: Harness) -> None:
    client.advance(1000)
    client.do("subscribe new")
    told = [json.loads(body)["operations"] for _ in range(60) for _, body in client.advance(10)]
    assert told == [["+#", "+new"]] * 3


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


def test_a_bundle_has_no_more_messages_than_the_format_allows(client: Harness) -> None:
    meet(client)
    groups = [{"topic": "t", "sequence": 1 + 9000 * part, "at": 0, "count": 9000, "length": 0} for part in range(9)]
    lines = client.receive(data(0, body=json.dumps({"groups": groups}).encode() + b"\n"))
    assert sum(words[0] == "message" for words in lines) == 16_384
    assert client.counters()["MALFORMED"] == 1
    assert payloads(client.receive(data(1, body=bundle(b"next", 100_000)))) == ["next"]
