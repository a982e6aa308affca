"""What goes on after something ended: a subscription, a burst of publications, a request whose first try failed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.gateway.http.idempotency import Answer, Idempotency
from glue.gateway.http.publishing import Publisher
from glue.gateway.http.sharing import Sharing
from glue.gateway.http.tokens import Access, Rights, add_token
from tests.gateway.http.played import Door, turns
from tests.gateway.http.test_machine import Bench, sent


@pytest.mark.parametrize("others", [1, 40])
def test_deliveries_to_others_go_on_after_a_subscription_has_ended(others: int) -> None:
    bench = Bench()
    names = [f"s{number}" for number in range(others)]
    for name in ("gone", *names):
        bench.open(name, url=f"http://10.0.0.1:{1 + len(bench.door.lanes)}/")
    assert bench.attempts(bench.now) == []
    bench.door.close("gone")
    bench.publish(b"1")
    found = [one for _ in range(50) for one in bench.attempts(bench.now + 0.1)]
    assert sorted(sent(found)) == sorted((name, 0, b"1", 1) for name in names)


def test_one_burst_of_publications_follows_another() -> None:
    published: list[Any] = []

    async def publish_many(topic: str, payloads: list[Any]) -> None:
        published.append((topic, payloads))

    async def program() -> None:
        endpoint: Any = SimpleNamespace(publish_many=publish_many)
        publisher = Publisher(endpoint)
        for burst in (1, 2):
            async with asyncio.timeout(5.0):
                await asyncio.gather(*(publisher.publish("t", [burst, number], None) for number in (1, 2)))

    asyncio.run(program())
    assert published == [("t", [[1, 1], [1, 2]]), ("t", [[2, 1], [2, 2]])]


def test_when_the_first_of_three_equal_requests_fails_one_other_does_its_work() -> None:
    gate = asyncio.Event()
    begun: list[int] = []

    async def work() -> Answer:
        begun.append(len(begun))
        await gate.wait()
        if len(begun) == 1:
            raise ConnectionError("the network is gone")
        await turns(5)
        return 202, {"try": len(begun)}

    async def program() -> list[Any]:
        answers = Idempotency(10, 60.0, None, lambda: 0.0)
        asked = [asyncio.create_task(answers.once("a", "key", b"body", work)) for _ in range(3)]
        await turns(5)
        gate.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    first, *others = asyncio.run(program())
    assert isinstance(first, ConnectionError)
    assert (others, begun) == ([(202, {"try": 2})] * 2, [0, 1])


def test_the_end_of_an_attempt_of_an_earlier_time_says_nothing_of_the_present_one() -> None:
    bench = Bench()
    bench.open()
    bench.publish(b"1")
    (early,) = bench.attempts(bench.now)
    bench.door.close("s")
    bench.open()
    (present,) = bench.attempts(bench.now + 2.0)
    bench.answer(early)
    assert bench.door.stored_position("s")["offset"] == 0, "the answer may have been for another address"
    bench.answer(present)
    assert bench.door.stored_position("s")["offset"] == 1


def test_answers_by_key_are_bounded_and_the_oldest_goes_first() -> None:
    async def program() -> list[int]:
        answers = Idempotency(2, 60.0, None, lambda: 0.0)
        made: list[int] = []

        async def work() -> Answer:
            made.append(len(made))
            return 202, {}

        for key in ("a", "b", "c", "c", "b", "a"):
            await answers.once("x", key, b"", work)
        return made

    assert asyncio.run(program()) == [0, 1, 2, 3], "the first was forgotten"


def test_a_wrong_file_of_tokens_is_told_once_and_what_was_read_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = add_token(tmp_path / "tokens", "a", ["t"], [])
    access = Access(tmp_path / "tokens")
    (tmp_path / "tokens").write_text("no token\n")
    for _ in range(3):
        access.check()
    assert len(caplog.messages) == 1
    assert (access.rights(token), access.revision) == (Rights("a", ("t",), ()), 1)


def test_a_topic_that_another_door_made_is_known_here_and_kept_once() -> None:
    async def program() -> None:
        door = Door()
        await door.delivering.start()
        model: Any = SimpleNamespace(_new_owner=lambda: "me")
        sharing = Sharing(model, door.delivering)
        for _ in range(2):
            await sharing._created("http/topics/t/x", True)
        assert (door.store.topics, door.network.kept) == ({"t/x"}, {"$dead/#": 1, "t/x": 1})
        await door.delivering.journal.unwant("t/x")
        assert door.network.kept == {"$dead/#": 1}
        await door.delivering.close()

    asyncio.run(program())
