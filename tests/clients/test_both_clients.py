"""The clients in C and JavaScript without a network: rules of the wire format that both keep, byte by byte.

Time is virtual.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.compiled import Harness, node_harness, sent
from tests.clients.datagrams import (
    LIFE,
    PEER,
    acknowledgement,
    acknowledgements,
    announcement,
    bundle,
    data,
    datagram,
    discovery,
    golden_messages,
    meet,
    payloads,
    transports,
)
from tests.golden.make import FOLDER as GOLDEN
from tests.golden.make import VECTORS


@pytest.fixture(scope="module")
def shared() -> Iterator[list[Harness]]:
    """The client in JavaScript, once a test needs it: it starts slowly, and begins anew for each test."""
    started: list[Harness] = []
    yield started
    for harness in started:
        harness.end()


@pytest.fixture(params=["c", "node"])
def client(request: pytest.FixtureRequest, shared: list[Harness]) -> Iterator[Harness]:
    """The client "tiny", which has sent its first announcement."""
    if request.param == "node" and not shared:
        shared.append(node_harness())
    harness = Harness() if request.param == "c" else shared[0]
    if request.param == "node":
        harness.do("reset")
    harness.do("subscribe #")
    harness.advance(100)
    yield harness
    if request.param == "c":
        harness.end()


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


def missed(lines: list[list[str]]) -> list[int]:
    return [int(words[4]) for words in lines if words[0] == "message"]


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
    lines = client.receive(data(2)) + client.receive(data(3)) + client.receive(data(2))
    assert payloads(lines) == []
    assert acknowledgements(client, lines)[-1] == (["ack", 0, client.window, 1, 1], [1, 3])
    assert payloads(client.receive(data(1, attempt=1))) == ["1", "2", "3"]
    lines = client.receive(data(1, attempt=2))
    assert payloads(lines) == []
    assert acknowledgements(client, lines)[-1] == (["ack", 0, client.window, 1, 4], [])
    assert payloads(client.receive(data(client.window + 4))) == []
    assert client.counters()["BEYOND_WINDOW"] == 1


def test_a_hole_is_reported_with_the_message_behind_it(client: Harness) -> None:
    meet(client)
    client.receive(data(0))
    assert missed(client.receive(data(1, body=bundle(b"later", 5)))) == [3]  # the messages 2 to 4 will not come
    client.receive(data(3, body=bundle(b"after the skip", 8)))
    lines = client.receive(datagram("transport", ["skip", 1, 3]))
    assert missed(lines) == [2]
    assert acknowledgements(client, lines)[-1][0] == ["ack", 0, client.window, 1, 4]


def test_messages_behind_a_later_one_are_dropped_also_on_another_channel(client: Harness) -> None:
    meet(client)
    client.receive(data(0, body=bundle(b"five", 5)))
    assert payloads(client.receive(data(0, channel=2, body=bundle(b"four", 4)))) == []
    assert payloads(client.receive(data(1, channel=2, body=bundle(b"four", 4, unordered=1)))) == ["four"]
    assert payloads(client.receive(data(2, channel=2, body=bundle(b"kept", 6, retain=2)))) == ["kept"]


def test_expired_messages_and_those_of_other_topics_are_dropped(client: Harness) -> None:
    meet(client)
    late = datagram("transport", ["data", 0, 60_000, 0, 0, 0, 1, 0], bundle(b"late", 1, lifespan=50_000))
    assert payloads(client.receive(late)) == []
    assert payloads(client.receive(data(1, body=bundle(b"x", 1, topic="$glue/anything")))) == []


def test_best_effort_is_delivered_in_any_order_and_once(client: Harness) -> None:
    meet(client)
    best = [datagram("transport", ["best", 0, number], bundle(b"%d" % number, number + 1)) for number in range(3)]
    lines = [line for number in (0, 2, 2, 1, 0) for line in client.receive(best[number])]
    assert payloads(lines) == ["0", "2", "1"]
    fragment = datagram("transport", ["best", 0, 3], b"x" * 10, fragment=[1, 10, 15, 0])
    assert client.receive(fragment) == []
    assert client.counters()["FRAGMENTS_IGNORED"] == 1


def test_a_group_is_joined_by_its_members_alone(client: Harness) -> None:
    meet(client)
    frame = datagram("transport", ["group", 0, 0, 0, 0, 0, 9, 0], bundle(b"to the group", 1))
    assert payloads(client.receive(frame, way="multicast")) == []
    [(own, _), *_] = client.advance(1000)
    identity = own["glue"][2]
    lines = client.receive(datagram("transport", ["open", 9], json.dumps([PEER, identity]).encode()), way="multicast")
    assert acknowledgements(client, lines) == [(["ack", 0, client.window, 9, 0], [])]
    assert payloads(client.receive(frame, way="multicast")) == ["to the group"]


def test_reliable_messages_are_sent_again_until_they_are_acknowledged(client: Harness) -> None:
    meet(client, "+home/+/x")
    lines = [client.do(f"reliable home/a/x {text}") for text in ("one", "two", "three")]
    assert [line[-1] for line in lines] == [["result", "1"]] * 3
    [channel] = {entry[6] for line in lines for entry in transports(sent(line))}
    assert [entry[7] for line in lines for entry in transports(sent(line))] == [0, 1, 2]
    assert transports(sent(client.receive(acknowledgement(channel, 1, [1, 2])))) == []
    assert transports(client.advance(30)) == [["data", 1, 30, 0, 0, 0, channel, 1]]  # the third is there, so it is lost
    client.receive(acknowledgement(channel, 3, []))
    assert transports(client.advance(5000)) == []


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


def test_another_life_has_to_return_a_token(client: Harness) -> None:
    meet(client)
    client.receive(data(0))
    [(probe, _)] = sent(client.receive(discovery("announce", announcement(), life=LIFE + 1), way="multicast"))
    assert payloads(client.receive(data(0, life=LIFE + 1))) == []
    token = probe["discovery"][0]
    client.receive(discovery("answer", announcement(), token=9, echo=token, life=LIFE + 1))
    assert payloads(client.receive(data(0, life=LIFE + 1))) == ["0"]
    assert payloads(client.receive(data(1))) == []  # of the life before


def test_data_from_another_address_is_dropped(client: Harness) -> None:
    meet(client)
    assert payloads(client.receive(data(0), port=5000)) == []
    assert client.counters()["UNKNOWN_SENDER"] == 1


def test_it_says_goodbye_to_each_peer_twice_and_to_all_once(client: Harness) -> None:
    meet(client)
    lines = client.do("goodbye")
    assert [header["discovery"][-1] for header, _ in sent(lines)] == ["goodbye"] * 3
    assert [words[1] for words in lines] == ["37319", "37319", "37320"]


# ------------------------------------------------------------------------------------------- after a break


def restarted(client: Harness, *operations: str) -> int:
    """Let the peer begin another life, and prove it; returns the token that it returned."""
    hello = discovery("announce", announcement(*operations), token=7, life=LIFE + 1)
    [(probe, _)] = sent(client.receive(hello, way="multicast"))
    token: int = probe["discovery"][0]
    client.receive(discovery("answer", announcement(*operations), token=9, echo=token, life=LIFE + 1))
    return token


def test_the_next_life_of_a_peer_gets_nothing_of_what_the_last_one_was_sent(client: Harness) -> None:
    meet(client, "+t")
    client.do("reliable t old")
    restarted(client, "+t")
    assert transports(client.advance(1000)) == []
    [(header, body)] = sent(client.do("reliable t new"))
    assert (header["transport"][7], body.rpartition(b"\n")[2]) == (0, b"new")


def test_a_goodbye_of_the_next_life_has_the_token_that_it_returned(client: Harness) -> None:
    former = meet(client, "+t")
    token = restarted(client, "+t")
    client.receive(discovery("goodbye", token=0, echo=former, life=LIFE + 1))
    assert client.do("publish t x")[-1] == ["result", "1"]
    client.receive(discovery("goodbye", token=0, echo=token, life=LIFE + 1))
    assert client.do("publish t x") == [["result", "0"]]


def fragments(text: str, message: int, channel: int = 1, sequence: int = 1, life: int = LIFE) -> list[bytes]:
    """A message in three frames from `message` on."""
    whole = bundle(text.encode(), sequence)
    size = -(-len(whole) // 3)
    parts = [whole[start : start + size] for start in range(0, len(whole), size)]
    assert len(parts) == 3
    return [
        data(message + place, channel, body=part, fragment=[message, size, len(whole), place], life=life)
        for place, part in enumerate(parts)
    ]


def test_a_message_in_fragments_that_was_broken_off_is_not_joined_to_the_next(client: Harness) -> None:
    meet(client)
    broken, whole = fragments("broken off", 0), fragments("whole", 3, sequence=2)
    for part in broken[:2]:
        client.receive(part)
    client.receive(datagram("transport", ["skip", 1, 3]))
    assert payloads([line for part in whole for line in client.receive(part)]) == ["whole"]
    assert payloads(client.receive(data(6, body=bundle(b"next", 3)))) == ["next"]


def test_fragments_of_a_life_that_is_over_hold_up_nobody(client: Harness) -> None:
    meet(client)
    client.receive(data(0))
    client.receive(fragments("half of it", 0, channel=2, sequence=2)[0])
    restarted(client)
    lines = [line for part in fragments("all of it", 0, life=LIFE + 1) for line in client.receive(part)]
    assert payloads(lines) == ["all of it"]


def test_what_a_skip_has_passed_does_not_come_later(client: Harness) -> None:
    meet(client)
    client.receive(data(1))
    assert payloads(client.receive(datagram("transport", ["skip", 1, 3]))) == []
    assert payloads(client.receive(data(1, attempt=1)) + client.receive(data(2))) == []
    assert payloads(client.receive(data(3))) == ["3"]
    assert payloads(client.receive(datagram("transport", ["skip", 1, 2])) + client.receive(data(4))) == ["4"]


def test_a_retained_value_says_nothing_of_missed_messages(client: Harness) -> None:
    meet(client)
    lines = client.receive(data(0, body=bundle(b"kept", 7, retain=2)))
    lines += client.receive(data(1, body=bundle(b"live", 12)))
    lines += client.receive(data(2, body=bundle(b"then", 15)))
    assert missed(lines) == [0, 0, 2]


def test_a_lifespan_counts_the_time_that_a_frame_was_held(client: Harness) -> None:
    meet(client)
    client.receive(data(1, body=bundle(b"old by then", 2, lifespan=3000)))
    client.receive(data(2, body=bundle(b"lives longer", 3, lifespan=9000)))
    client.advance(3001)
    assert payloads(client.receive(data(0, body=bundle(b"first", 1)))) == ["first", "lives longer"]


def test_operations_that_come_twice_or_too_early_change_nothing(client: Harness) -> None:
    meet(client, "+a", "+b", "-a")
    client.receive(discovery("announce", announcement("+a", version=1)), way="multicast")
    assert client.do("publish a x") == [["result", "0"]]
    client.receive(discovery("announce", announcement("+d", version=9)), way="multicast")
    assert client.do("publish d x") == [["result", "0"]], "what comes before is missing"
    assert client.do("publish b x")[-1] == ["result", "1"]


@pytest.mark.parametrize("epoch", [0, 1])
def test_who_asks_for_interests_is_told_all_that_it_lacks(client: Harness, epoch: int) -> None:
    token = meet(client)
    client.do("subscribe another")
    asked = datagram("discovery", [9, token, epoch, 0, "want"])
    [(header, body)] = [each for each in sent(client.receive(asked)) if each[0]["discovery"][1] == 9]
    told = json.loads(body)
    assert (told["epoch"], told["operations"]) == (0, ["+#", "+another"])
    assert header["discovery"][-1] == "answer" or epoch == 0, "the epoch has to be named to who knows another one"


def test_missing_interests_are_asked_for_ten_times_a_second(client: Harness) -> None:
    meet(client, "+a")
    client.receive(discovery("announce", announcement("+c", version=3)), way="multicast")
    kinds = [header["discovery"][-1] for _ in range(100) for header, _ in client.advance(5)]
    assert 5 <= kinds.count("want") <= 6
