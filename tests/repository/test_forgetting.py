"""Tables that grow with what peers or programs say forget at a limit, and answer as before."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from glue.capture.tap import TappedNetwork
from glue.endpoint import requests, reserved
from glue.gateway.http import lanes
from glue.gateway.http.idempotency import Idempotency
from glue.gateway.http.signing import Item
from glue.gateway.http.subscriptions import Subscription
from glue.gateway.mqtt import files
from glue.gateway.mqtt.identity import Identity
from glue.history import reader
from glue.history.wire import LATEST
from glue.model import names
from glue.model.consensus.core import RecentKeys
from glue.model.mergeable import exchange
from glue.model.mergeable.context import Context
from glue.model.mergeable.wire import Pull
from glue.network import sender
from glue.receivers import activation
from glue.security import protection, rules, sealer
from glue.storage import Record, walking
from glue.topics import copies, wills

LIMIT = 3
WORDS = "abcdefg"

Table = Callable[[pytest.MonkeyPatch, Path], Iterator[tuple[int, bool]]]
"""Says something new each time; how many of these the table has, and whether the answer is right."""


def checked_topics(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(reserved, "KNOWN_TOPICS", LIMIT)
    known: set[str] = set()
    for topic in WORDS:
        reserved.check_name(topic, known)
        yield len(known), topic in known


def topics_of_requests(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(requests, "KNOWN_TOPICS", LIMIT)
    made: Any = SimpleNamespace(checked=set())
    for topic in WORDS:
        requests.Requests.note_checked(made, topic)
        yield len(made.checked), topic in made.checked


def forwarded_messages(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    keys = RecentKeys(LIMIT)
    for place, key in enumerate(WORDS):
        is_right = keys.is_new(key) and not keys.is_new(key)
        yield len(keys._keys), is_right and (place < 2 or not keys.is_new(WORDS[place - 2]))


def names_of_members(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(names, "KNOWN", LIMIT)
    known = names.Names()
    for place, id in enumerate(WORDS):
        known.learn(id, id.upper())
        others = [known.of(other).isupper() for other in WORDS[: place + 1]]
        yield len(known._known), others == [number > place - LIMIT for number in range(place + 1)]


def copies_of_messages(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(copies, "SEEN", LIMIT)
    seen: OrderedDict[str, None] = OrderedDict()
    for tag in WORDS:
        yield len(seen) if copies.is_new(seen, tag) else 99, not copies.is_new(seen, tag)


def decisions_of_rules(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(rules, "DECISIONS", LIMIT)
    found, marks = rules.read_policy([
        {"who": "#", "may": ["publish"], "topics": ["a", "c", "e"]}, {"topics": ["b"], "signed": True},
    ])  # fmt: skip
    made, subject = rules.Rules(found, marks), SimpleNamespace(name="kitchen", rules=())
    for topic in WORDS:
        is_right = made.decide(subject, "publish", topic).allowed == (topic in "ace")
        yield max(len(made._known), len(made._marked)), is_right and made.marks_of(topic) == (topic == "b", False)


def streams_of_a_lane(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(lanes, "STREAMS", LIMIT)
    lane = lanes.Lane(Subscription("s", "#", "http://10.0.0.1/"), 0, 0.0)
    for place, topic in enumerate(WORDS):
        slot = lanes.Slot(place, Item(place, Record("p" * 16, "hall", 1, topic, 5, [b"1"]), 0), 0.0)
        lane.slots[place] = slot
        lane.settle(slot, portable=True)
        yield len(lane.seen), [(one.topic, stop) for one, stop in lane.seen.items()][-1] == (topic, 6)


def answers_of_a_file(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    async def answer() -> tuple[int, dict[str, Any]]:
        return 200, {"key": word}

    for place, word in enumerate(WORDS):
        made = Idempotency(LIMIT, 60.0, path / "answers", lambda: 1000.0)
        found = asyncio.run(made.once("me", word, b"", answer))
        made.close()
        again = Idempotency(LIMIT - 1, 60.0, path / "answers", lambda: 1000.0)
        count = len(again._known)
        again.close()
        yield count + 1, found == (200, {"key": word}) and count == min(place + 1, LIMIT - 1)


def replicas_that_were_answered(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(exchange, "ANSWERED", LIMIT)
    store: Any = SimpleNamespace(since=lambda context: "all", mark=7, context=Context())
    made = exchange.DigestExchange(store, Counter(), Random(1), 0.0)
    for peer in WORDS:
        first, second = (made.receive_pull(1.0, peer, Pull(Context())) for _ in range(2))
        yield len(made._answered), bool(first) and not second


def rights_of_clients(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(files, "REMEMBERED", LIMIT)
    (path / "rules").write_text("topic read a\ntopic read c\n")
    made = files.FileAccess(None, path / "rules", anonymous=True)
    for topic in WORDS:
        is_allowed = made.authorize(Identity(), "client", "read", topic)
        yield len(made._remembered), is_allowed == (topic in "ac")


def hosts_without_segmentation(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(sender, "REMEMBERED", LIMIT)
    made: Any = SimpleNamespace(statistics=Counter(), _plain=set())
    for word in WORDS:
        sender.Sender._remember_refusal(made, (word, 1))
        yield len(made._plain), word in made._plain


def addresses_of_a_capture(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setitem(TappedNetwork._packet.__globals__, "HEADERS_KNOWN", LIMIT)
    made: Any = SimpleNamespace(_headers={})
    for place in range(len(WORDS)):
        first, second = (TappedNetwork._packet(made, ("10.0.0.1", 1), (f"10.0.0.{place}", 2), b"x") for _ in range(2))
        yield len(made._headers), first == second


def partners_of_a_sealer(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(sealer, "PARTNERS", LIMIT)
    made: Any = SimpleNamespace(partners={}, _granted={}, _ways={})
    for word in WORDS:
        life: Any = object()
        sealer.Sealer.meet(made, (word, 1), life)
        sealer.Sealer.grant(made, (word, 1), 9)
        is_right = made.partners[word, 1] is life and made._granted[word, 1] == 9
        yield max(len(made.partners), len(made._granted)), is_right


def flows_of_private_topics(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(protection, "FLOWS", LIMIT)
    made: Any = SimpleNamespace(_flows=OrderedDict(), _flow_count=0, _entropy=bytes)
    for place, word in enumerate(WORDS):
        item: Any = SimpleNamespace(peers=(word,), priority=2, reliable=True)
        flow = protection.Protection._flow(made, item)
        yield len(made._flows), flow.number == place + 1 and protection.Protection._flow(made, item) is flow


def windows_of_private_topics(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(protection, "WINDOWS", LIMIT)
    numbers = {word: place + 1 for place, word in enumerate(WORDS)}
    wrapper = SimpleNamespace(first_number=lambda peer, life: numbers.get(peer))
    made: Any = SimpleNamespace(_windows=OrderedDict(), _wrapper=wrapper)
    for word in WORDS:
        window = protection.Protection._window(made, word, 1, 1)
        assert protection.Protection._window(made, "stranger", 1, 1) is None
        yield len(made._windows), protection.Protection._window(made, word, 1, 1) is window is not None


def wills_that_were_seen(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(wills, "SEEN", LIMIT)
    made: Any = SimpleNamespace(_seen=OrderedDict(), _seen_count=0, _statistics=Counter())
    for word in WORDS:
        first, second = (wills.Wills._is_new(made, ("kitchen", word, 1), 1) for _ in range(2))
        yield made._seen_count, first and not second and made._seen_count == len(made._seen)


def publishers_of_a_reader(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(reader, "STREAMS", LIMIT)
    made = reader.Reader("#", (LATEST, 0), 1000, iter(range(99)).__next__, Random(1), Counter(), "m" * 16)
    for word in WORDS:
        made.offered(0.0, word * 16, 1, word, "#")
        yield len(made._lives), made.advance(0.0) != []


def places_in_segments(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(walking, "PLACES", LIMIT)
    made: Any = SimpleNamespace(_places={})
    for place in range(len(WORDS)):
        segment: Any = SimpleNamespace(base=place)
        reading = walking.Walker._stopped(made, segment, [], place, 7)
        yield len(made._places), made._places[place, place] == (segment, 7) and reading.next == place


def senders_to_a_receiver(patch: pytest.MonkeyPatch, path: Path) -> Iterator[tuple[int, bool]]:
    patch.setattr(activation, "SENDERS", LIMIT)
    made: Any = SimpleNamespace(seen=None)
    for word in WORDS:
        mail: Any = SimpleNamespace(batch=SimpleNamespace(sender=word), seq=5)
        activation.Activation._remember(made, mail, "answer")
        yield len(made.seen), [*made.seen.items()][-1] == (word, [5, "answer"])


@pytest.mark.parametrize(
    "table",
    [
        addresses_of_a_capture, answers_of_a_file, checked_topics, copies_of_messages, decisions_of_rules,
        forwarded_messages, hosts_without_segmentation, names_of_members, partners_of_a_sealer,
        replicas_that_were_answered, rights_of_clients, streams_of_a_lane, topics_of_requests, flows_of_private_topics,
        windows_of_private_topics, wills_that_were_seen, publishers_of_a_reader, places_in_segments,
        senders_to_a_receiver,
    ],
)  # fmt: skip
def test_a_table_stays_within_its_limit_and_right(
    table: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = [*table(monkeypatch, tmp_path)]
    assert len(told) == len(WORDS)
    assert all(is_right for _, is_right in told)
    assert max(count for count, _ in told) == LIMIT
