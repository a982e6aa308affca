"""What a door publishes and for whom it waits; and answers to a key that comes again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from glue.gateway.http import door as room
from glue.gateway.http import idempotency
from glue.gateway.http.door import Door
from glue.gateway.http.idempotency import OTHER, Idempotency
from glue.gateway.http.limits import Limits
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.tokens import EVERYTHING, Access


class Receipt:
    """What the keepers say of one message; nothing at all with None."""

    durable, failure = ("one", "two"), "1 of 2"

    def __init__(self, outcome: bool | None) -> None:
        self._outcome = outcome

    def __await__(self) -> Any:
        async def wait() -> bool:
            if self._outcome is None:
                await asyncio.Event().wait()
            return bool(self._outcome)

        return wait().__await__()


class Endpoint:
    """An endpoint that notes what is published."""

    name, id = "door", "0" * 16

    def __init__(self, outcome: bool | None = True) -> None:
        self._core = SimpleNamespace(guard=None)
        self._outcome = outcome
        self.asked: list[Any] = []

    async def publish(self, topic: str, payload: Any, **options: Any) -> Any:
        self.asked.append((topic, payload, options))
        return Receipt(self._outcome) if options.get("receipt") else None


def made_door(outcome: bool | None = True, is_kept: bool = True, on_disk: bool = True) -> tuple[Any, Endpoint]:
    endpoint: Any = Endpoint(outcome)
    journal = SimpleNamespace(data_dir=Path("log") if on_disk else None, keeps=lambda topic: is_kept)
    parts: Any = SimpleNamespace(journal=journal)
    unused: Any = None
    made = Door(endpoint, Access(local=EVERYTHING), Limits(), parts, unused, unused, {})

    async def together(*told: Any) -> list[str]:
        endpoint.asked.append(told)
        return ["me"]

    made._publisher = SimpleNamespace(publish=together)  # type: ignore[assignment]
    return made, endpoint


@pytest.mark.parametrize(
    ("is_kept", "on_disk", "acks", "expected"),
    [
        (True, True, None, "disk"), (True, False, None, "sent"), (False, True, None, "sent"),
        (False, False, None, "sent"), (True, True, "sent", "sent"), (False, False, "replicas", "replicas"),
        (False, False, 2, 2),
    ],
)  # fmt: skip
def test_a_publication_waits_for_the_door_s_disk_where_its_topic_is_there(
    is_kept: bool, on_disk: bool, acks: Any, expected: Any
) -> None:
    async def program() -> None:
        made, endpoint = made_door(is_kept=is_kept, on_disk=on_disk)
        is_sent = expected == "sent"
        answer = {"topic": "t", "acks": expected}
        found = await made.publish("t", 1, acks, {})
        assert found == (202, answer if is_sent else {**answer, "durable": ["me"]})
        assert endpoint.asked == [("t", 1, None if is_sent else expected)], "plain ones go together"
        endpoint.asked.clear()
        found = await made.publish("t", 1, acks, {"retain": True})
        assert found == (202, answer if is_sent else {**answer, "durable": ["one", "two"]})
        asked = {} if is_sent else {"receipt": True, "acks": expected}
        assert endpoint.asked == [("t", 1, {"retain": True, **asked})]
        assert made.statistics == {"messages published": 2}

    asyncio.run(program())


def test_a_publication_with_options_that_is_not_stored_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "ACKS_TIME", 0.0)

    async def program() -> None:
        for outcome, status, words, headers in (
            (False, 503, "not as durable as asked: 1 of 2", {"retry-after": "1"}),
            (None, 504, "no acknowledgement within 0 s; the message may be stored", {}),
        ):
            made, _ = made_door(outcome)
            with pytest.raises(ProblemError) as caught:
                await made.publish("t", 1, "disk", {"type": "x"})
            assert (caught.value.status, caught.value.detail, caught.value.headers) == (status, words, headers)

    asyncio.run(program())


def test_a_new_door_has_no_streams_and_counts_each_change_of_rights() -> None:
    made, endpoint = made_door()
    assert (made.streams, made.rules, made.describe(), made.rights_revision) == (0, None, {}, (0, 0))
    made.access.revision = 3
    assert made.rights_revision == (3, 0)
    made.rules = SimpleNamespace(revision=7)
    assert made.rights_revision == (3, 7)
    endpoint._core = SimpleNamespace(guard=SimpleNamespace(changes=5))
    unused: Any = None
    again = Door(endpoint, made.access, Limits(), unused, unused, unused, {})  # type: ignore[arg-type]
    assert again.rights_revision == (3, 5), "identities bring rules"


# ------------------------------------------------------------------------------------------------------------ keys


async def work(answer: int) -> tuple[int, dict[str, Any]]:
    return 202, {"answer": answer}


def refused(keys: Idempotency, key: str, body: bytes) -> tuple[int, str]:
    with pytest.raises(ProblemError) as caught:
        asyncio.run(keys.once("a", key, body, lambda: work(0)))
    return caught.value.status, caught.value.detail


def test_a_key_of_another_request_or_of_no_length_is_refused_and_no_key_is_none() -> None:
    keys = Idempotency(9, 60.0, None, lambda: 1_000.0)
    assert asyncio.run(keys.once("a", "k", b"x", lambda: work(1))) == (202, {"answer": 1})
    assert refused(keys, "k", b"y") == (422, OTHER)
    for key in ("", "k" * 256):
        assert refused(keys, key, b"x") == (400, "Idempotency-Key: expected 1 to 255 characters")
    for answer in (2, 3):
        assert asyncio.run(keys.once("a", None, b"x", lambda: work(answer))) == (202, {"answer": answer})  # noqa: B023
    assert asyncio.run(keys.once("ab", "c", b"", lambda: work(4)))[1] == {"answer": 4}
    assert asyncio.run(keys.once("a", "bc", b"", lambda: work(5)))[1] == {"answer": 5}, "names and keys do not run on"


def test_a_key_at_work_for_another_request_is_refused_and_a_failure_is_not_remembered() -> None:
    async def program() -> None:
        keys, go = Idempotency(9, 60.0, None, lambda: 1_000.0), asyncio.Event()

        async def failing() -> Any:
            await go.wait()
            raise ValueError("why")

        first = asyncio.create_task(keys.once("a", "k", b"x", failing))
        await asyncio.sleep(0)
        with pytest.raises(ProblemError) as caught:
            await keys.once("a", "k", b"y", failing)
        assert (caught.value.status, caught.value.detail) == (422, OTHER)
        go.set()
        with pytest.raises(ValueError, match="why"):
            await first
        assert await keys.once("a", "k", b"y", lambda: work(1)) == (202, {"answer": 1})

    asyncio.run(program())


def known(keys: Idempotency, *names: str) -> list[bool]:
    """Which keys are answered without work."""
    found = []
    for name in names:
        _, document = asyncio.run(keys.once("a", name, b"", lambda: work(0)))
        found.append(document != {"answer": 0})
    return found


def test_a_next_life_reads_the_newest_keys_that_are_young_enough(tmp_path: Path) -> None:
    path, now = tmp_path / "keys", [1_000.0]

    def life(most: int) -> Idempotency:
        return Idempotency(most, 100.0, path, lambda: now[0])

    keys = life(9)
    for number in range(1, 5):
        now[0] += 1.0
        asyncio.run(keys.once("a", f"k{number}", b"", lambda: work(number)))  # noqa: B023
    keys.close()
    keys.close()
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert [(len(place), at, len(print_), answer) for place, at, print_, answer in lines] == [
        (32, 1_000.0 + number, 16, [202, {"answer": number}]) for number in range(1, 5)
    ]
    again = life(4)
    again.close()
    assert path.read_bytes().count(b"\n") == 4
    again = life(3)
    again.close()
    assert path.read_bytes().count(b"\n") == 3, "the oldest is forgotten"
    now[0] = 1_102.5
    again = life(9)
    assert len(again._known) == 2, "what is too old is forgotten before anybody asks"
    again.close()
    assert path.read_bytes().count(b"\n") == 2
    again = life(9)
    assert known(again, "k4", "k3", "k2") == [True, True, False]
    now[0] = 1_103.5
    assert known(again, "k3", "k4") == [False, True], "the oldest goes first"
    again.close()
    assert idempotency.KEY_LIMIT == 255
