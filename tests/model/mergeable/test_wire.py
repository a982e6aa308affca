"""What comes from the network or from a disk: every message survives its journey, and what is none is refused."""

from __future__ import annotations

from collections import Counter
from errno import ENOSPC
from random import Random
from typing import Any

import orjson
import pytest

from glue.contract import Delivery
from glue.errors import ConfigurationError, CorruptStorageError, ModelError, StorageFullError
from glue.model.mergeable import Prefixes
from glue.model.mergeable.context import Context
from glue.model.mergeable.part import Mergeable
from glue.model.mergeable.store import Store
from glue.model.mergeable.wire import (
    Digest,
    ForeignError,
    MalformedDeltasError,
    Message,
    Pull,
    Push,
    decode,
    decode_stored,
    encode,
)
from glue.model.state import Pattern, Set, Update
from glue.model.storage import DeltaFile
from glue.simulation.consensus import SimulatedDisk

PREFIXES = Prefixes({"c/": "counter", "s/": "set", "r/": "register", "m/": "multi"})
LIFE = f"{7:016x}"


def filled() -> Store:
    store = Store(PREFIXES, LIFE, Counter())
    store.write(5, [Update("c/é", 5), Set("s/1", ["a", ""]), Set("r/1", {"b": [None]}), Set("m/1", None)])
    return store


def messages() -> list[Message]:
    store = filled()
    return [
        Digest(True, store.context, store.mark), Digest(False, Context(), 0), Pull(store.context),
        Push(store.whole()), Push(store.since(store.context), store.mark),
    ]  # fmt: skip


@pytest.mark.parametrize("message", messages(), ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    data = encode(PREFIXES, message)
    assert encode(PREFIXES, decode(PREFIXES, data)) == data


@pytest.mark.parametrize("message", messages(), ids=lambda message: type(message).__name__)
def test_a_mutated_message_is_refused_or_means_something_and_harms_nobody(message: Message) -> None:
    rng, data = Random(1), encode(PREFIXES, message)
    store, refused = filled(), 0
    for _ in range(2000):
        mutated = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(mutated))
            mutated[at : at + rng.randrange(3)] = rng.choice([b"", b"9", b"]", b"-", b'"', b"\xff", b"null", b"[1,"])
        try:
            found = decode(PREFIXES, bytes(mutated))
        except (MalformedDeltasError, ForeignError):
            refused += 1
            continue
        if isinstance(found, Push):
            store.merge(found.delta, 0)
            store.match(Pattern("#"))
            store.whole()
    assert refused > 1000


def delta(context: Any = None, events: Any = None, kept: Any = None) -> bytes:
    return told([context or {}, events or {}, kept or {}])


def told(delta: Any) -> bytes:
    return orjson.dumps([PREFIXES.mark, "delta", delta])


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"\xff", delta({LIFE: [1]}), delta({LIFE: []}), delta({LIFE: [2, 2]}), delta({LIFE: [0, 2]}),
        delta({LIFE: [1, True]}), delta({LIFE: [1.0, 2]}), delta({LIFE: [1, 2**60]}), delta({"x": [1, 2]}),
        delta({LIFE: 5}), delta([1]), delta({LIFE: [1, 3, 3, 4]}), delta(events={"other": []}),
        delta(events={"c/#": []}),
        delta(events={"c/1": [[LIFE, 1, 2**53]]}), delta(events={"c/1": [[LIFE, 1, True]]}),
        delta(events={"c/1": [[LIFE, 1.5, 1]]}), delta(events={"c/1": [[5, 1, 1]]}), delta(events={"c/1": [[LIFE, 1]]}),
        delta(events={"s/1": [[LIFE, 1, 1]]}), delta(events={"s/1": [[LIFE, 1, "x" * 2000]]}),
        delta(events={"r/1": [[LIFE, 1, [1, 1]]]}), delta(events={"r/1": [[LIFE, 1, [-1, 1, 1]]]}),
        delta(events={"r/1": [[LIFE, 1, [2**50, 1, 1]]]}), delta(events={"m/1": [[LIFE, 1, "x" * (1 << 20)]]}),
        delta(events={"c/1": 5}), told([{}, {}]), told([{}, [], {}]), encode(PREFIXES, Pull(Context())),
        delta({f"{life:016x}": [1, 2] for life in range(20_000)}),
    ],
)  # fmt: skip
def test_what_is_no_delta_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedDeltasError):
        decode_stored(PREFIXES, data)


def part(prefixes: Prefixes = PREFIXES) -> tuple[Mergeable, Counter[str]]:
    counts: Counter[str] = Counter()
    return Mergeable(prefixes, None, [], "topic", counts, Random(1), 0.0, 1_700_000_000.0), counts


def said(*payloads: Any) -> list[Delivery]:
    return [Delivery("topic", payloads, None, "b", "b" * 16, 1, 1, 0.0, False, ())]


def test_bad_messages_and_those_of_other_prefixes_are_counted_and_dropped() -> None:
    mine, counts = part()
    foreign = [encode(Prefixes({"c/": "set"}), message) for message in (Digest(True, Context(), 0), Pull(Context()))]
    mark = PREFIXES.mark.encode()
    bad = [b"x", {"json": 1}, b'["%b","delta"]' % mark, b'["%b","digest",1,{},"00"]' % mark, b"[5]"]
    assert mine.receive(0.0, said(*foreign, *bad), []) == ([], [])
    assert counts["messages of replicas with other mergeable prefixes"] == 2
    assert counts["malformed messages of mergeable keys"] == 5


def test_pulls_are_answered_only_so_often() -> None:
    mine, counts = part()
    _, requests = mine.receive(0.0, said(*[encode(PREFIXES, Pull(Context()))] * 10), [])
    assert len(requests) == 1
    assert counts["pulls refused: too many"] == 9


def test_a_prefix_holds_for_what_its_pattern_matches() -> None:
    for key, holds in (("c/1", True), ("c/1/2", True), ("c", True), ("cc/1", False), ("d", False)):
        assert (PREFIXES.kind(key) is not None) == Pattern("c/#").matches(key) == holds
    for pattern, holds in (("c/#", True), ("c/+/x", True), ("c", True), ("#", False), ("+/1", False)):
        assert PREFIXES.hold_all(Pattern(pattern)) == holds


@pytest.mark.parametrize(
    ("mergeable", "words"),
    [
        ({"c": "counter"}, "whole levels, as 'c/'"), ({"c/": "number"}, "none of 'counter', 'set'"),
        ({"c/": "counter", "c/d/": "set"}, "lies within"), ({f"{n}/": "set" for n in range(65)}, "up to 64"),
        (["c/"], "expected a mapping"), ({"c/": ["set"]}, "none of"),
    ],
)  # fmt: skip
def test_mistakes_in_prefixes_are_told(mergeable: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Prefixes(mergeable)
    with pytest.raises(ModelError, match="wildcards"):
        Prefixes({"c/+/": "counter"})


# ------------------------------------------------------------------------------------------------- on disk


def kept(disk: SimulatedDisk) -> list[bytes]:
    return DeltaFile(disk).load()


def test_what_was_synced_survives_a_power_cut_and_what_was_cut_short_is_cut_off() -> None:
    for seed in range(50):
        disk = SimulatedDisk(Random(seed))
        file = DeltaFile(disk)
        file.load()
        file.append(b"one")
        file.sync()
        file.append(b"two" * 50)
        disk.crash()
        found = kept(disk)
        assert found in ([b"one"], [b"one", b"two" * 50])
        assert kept(disk) == found


def test_a_file_of_mostly_outdated_deltas_is_replaced_whatever_the_moment_of_a_power_cut() -> None:
    for after in range(8):
        disk = SimulatedDisk(Random(after))
        file = DeltaFile(disk)
        file.load()
        file.append(b"x" * (2 << 20))
        file.sync()
        assert file.is_outdated
        disk.power_cut_after = disk.calls + after
        try:
            file.replace([b"all"])
        except Exception:  # the power was cut
            disk.crash()
        assert kept(disk) in ([b"all"], [b"x" * (2 << 20)])


class ThinDisk(SimulatedDisk):
    """A disk that finds out only as it syncs that there is no room, and loses what it had taken."""

    def sync(self, name: str) -> None:
        try:
            super().sync(name)
        except OSError:
            raise OSError(ENOSPC, "no space left on the simulated disk") from None


def test_a_file_that_found_no_room_as_it_was_synced_is_not_whole_until_it_is_replaced() -> None:
    disk = ThinDisk(Random(1))
    file = DeltaFile(disk)
    file.load()
    file.append(b"one")
    disk.fails_to_sync = True
    with pytest.raises(StorageFullError):
        file.sync()
    before = file.is_whole
    file.replace([b"all"])
    assert (before, file.is_whole) == (False, True)
    disk.crash()
    assert kept(disk) == [b"all"]


def test_a_damaged_file_is_noticed_and_put_aside() -> None:
    disk = SimulatedDisk(Random(1))
    file = DeltaFile(disk)
    file.load()
    for _ in range(3):
        file.append(encode(PREFIXES, Push(filled().whole())))
    file.sync()
    disk.flip("deltas", 200)
    file = DeltaFile(disk)
    with pytest.raises(CorruptStorageError):
        file.load()
    file.begin_anew()
    assert kept(disk) == []
    assert disk.size("deltas.damaged") > 0
