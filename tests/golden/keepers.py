"""Golden vectors of what keepers are told of delayed messages, and of how keepers elect the home of a consumer."""

from __future__ import annotations

from glue.consumers import wire as consumers
from glue.consumers.voting import Ballot
from glue.contract import NORMAL, Subscribe
from glue.delayed import wire as delayed
from glue.delayed.wire import Id, Put, encode_ids, encode_puts
from glue.storage import Stream
from glue.topics.bundle import MessageGroup
from tests.golden.scenario import WALL_CLOCK, Lan, endpoint_id, of, publication


def what_keepers_are_told() -> dict[str, bytes]:
    """The attic holds a message of the hall for five seconds, and votes for the hall as the home of a consumer."""
    lan, hall, attic = Lan(), endpoint_id("hall"), endpoint_id("attic")
    life = int(WALL_CLOCK * 1000) << 10 | 1
    lan.run(1, "attic", Subscribe(1, delayed.ask_topic(attic)), Subscribe(2, consumers.ask_topic(attic)))
    lan.run(1, "hall", Subscribe(1, consumers.ask_topic(hall)))

    def told(name: str, topic: str, payload: bytes) -> bytes:
        sent = lan.run(1, name, publication(topic, payload))
        return b"".join(of(sent, name, "transport", "data")[:1])

    group = MessageGroup("home/a", 0, int(WALL_CLOCK * 1e6), [b"on"], None)
    [put] = encode_puts([Put(Id(hall, life, 1), "hall", 5000, NORMAL, True, group)])
    [done] = encode_ids("done", [Id(hall, life, 1)])
    golden = {
        "delayed-put": told("hall", delayed.ask_topic(attic), put),
        "delayed-done": told("hall", delayed.ask_topic(attic), done),
    }
    names = {hall: "hall", attic: "attic"}
    ballots = {id: Ballot(id, [hall, attic, endpoint_id("garden")], lan.now) for id in names}
    stream = Stream(hall, life, "home/a")
    ballots[hall].stand(lan.now)
    while len(golden) < 6:
        for id, ballot in ballots.items():
            for voter, ask, more in ballot.stored():
                if voter not in names:
                    continue
                head = {"ask": ask, "name": "billing", "pattern": "home/#", **more}
                if ask in ("stand", "copy"):
                    head |= {"voters": ballot.voters, "ordered": 0}
                golden.setdefault(
                    f"consumer-{ask}", told(names[id], consumers.ask_topic(voter), consumers.encode(head))
                )
                ballots[voter].take(lan.now, id, ask, head)
        if ballots[hall].acts(lan.now) and not ballots[hall].done:
            ballots[hall].add(stream, 1, 3)
        ballots[hall].advance(lan.now + 1)
    return golden
