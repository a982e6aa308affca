"""Receivers of asyncio endpoints, over real sockets on loopback."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import glue
from tests.support.event_loop import pair, run
from tests.support.lan import PATIENCE


class Account:
    """Keeps a sum."""

    async def activate(self, context: glue.Context) -> None:
        self.sum = context.state.get("sum", 0)

    async def receive(self, context: glue.Context, message: Any) -> Any:
        await asyncio.sleep(0)
        match message:
            case {"add": number}:
                before = self.sum
                await asyncio.sleep(0.001)
                self.sum = context.state["sum"] = before + number
                return self.sum
            case {"relay": to}:
                return await context.request(to, "get", timeout=PATIENCE)
            case "fail":
                raise ValueError("no")
        return self.sum

    async def deactivate(self, context: glue.Context) -> None:
        context.state["ended"] = True


def test_coroutines_handle_one_message_at_a_time() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            for host in (a, b):
                host.receivers("account", Account, model=host.model("plant", voters=2, election_timeout=0.1))
            answers = await asyncio.gather(*[
                endpoint.ask("account/x", {"add": 1}, PATIENCE) for endpoint in (a, b) for _ in range(20)
            ])  # fmt: skip
            assert sorted(answers) == list(range(1, 41))
            assert await a.ask("account/y", {"relay": "account/x"}, PATIENCE) == 40
            for endpoint in (a, b):
                with pytest.raises(glue.RemoteError, match="ValueError: no"):
                    await endpoint.ask("account/x", "fail", PATIENCE)
                with pytest.raises(glue.RequestError, match="account/x → account/x"):
                    await endpoint.ask("account/x", {"relay": "account/x"}, PATIENCE)
            assert await b.close_receivers(PATIENCE)
            assert await a.ask("account/x", "get", PATIENCE) == 40

    run(main())


def test_a_plain_function_and_sends() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            seen: list[int] = []
            model = a.model("plant", voters=1, election_timeout=0.1)
            a.receivers("list", lambda context, message: seen.append(message), model=model)
            for number in range(300):
                b.send("list/1", number)
            assert await b.ask("list/1", 300, PATIENCE) is None
            assert seen == list(range(301))
            with pytest.raises(glue.NoResponderError):
                await b.ask("nobody/1", 1, 0.1)

    run(main())
