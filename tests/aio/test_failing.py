"""What a receiver of an asyncio endpoint that fails, or looks at a cancelled task, leaves to the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from glue.contract import Delivery, Rung
from glue.endpoint.request import Request
from tests.aio.test_driver import Place, Token
from tests.endpoint.test_responding import AioSide, request


@pytest.mark.parametrize("error", [ValueError("ours"), asyncio.CancelledError()])
def test_a_receiver_that_fails_takes_nothing_from_the_others(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        place = Place()
        got: list[Any] = []

        class Failing(Token):
            def _deliver(self, event: Any) -> None:
                raise error

        tokens = [Failing("a", got), Token("b", got)]
        place.events = [Rung(tokens[0]), Delivery("t", [1], None, "b", "id-b", 1, 1, 0.0, False, tokens), "news"]
        place.driver._turn(True)
        assert ([name for name, _ in got], place.told, place.commits) == (["b"], ["news"], 1)
        assert place.driver._timer is not None, "the next turn comes"

    asyncio.run(main())
    assert len(caplog.records) == 2


def test_a_handler_of_requests_that_looks_at_a_cancelled_task_answers_with_an_error_and_then_the_next() -> None:
    async def main() -> None:
        def handle(one: Request) -> Any:
            if one.id == 1:
                raise asyncio.CancelledError
            return one.payload

        side = AioSide(handle)
        side.ask(request(1), request(2, {"a": 1}))
        assert side.replies() == [(1, "CancelledError: "), (2, {"a": 1})]
        assert (side.counted["handled"], side.counted["failed"]) == (2, 1)

    asyncio.run(main())
