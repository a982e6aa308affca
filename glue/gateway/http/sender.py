"""Makes the attempts of the delivery machine: one POST each, to addresses that the guard allows."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from glue.gateway.hosts import is_address
from glue.gateway.http.dead_letters import revived
from glue.gateway.http.guard import Guard, destination
from glue.gateway.http.items import Attempt, Outcome
from glue.gateway.http.signing import carrier_body, headers_of

CONNECT_TIME = 5.0
"""Seconds to connect: a host on the LAN answers in milliseconds or not at all."""
ANSWER_SIZE = 16 << 10
"""Bytes of an answer that are read, so that its connection can be used again; a longer one is cut."""

logger = logging.getLogger("glue.http")


class RefusedAddressError(OSError):
    """The guard does not allow an address."""


class GuardedResolver(AbstractResolver):
    """Resolves names and gives checked addresses only; the connection goes to these and to no others."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve a name. Raises OSError; RefusedAddressError if an address must not be called."""
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        found: list[ResolveResult] = []
        for family_found, _, _, _, address in infos:
            if refusal := self._guard.refusal(str(address[0]), port):
                raise RefusedAddressError(refusal)
            found.append(
                ResolveResult(
                    hostname=host,
                    host=str(address[0]),
                    port=port,
                    family=family_found,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        return found

    async def close(self) -> None:
        """Nothing is open."""


class Sender:
    """Sends deliveries with kept-alive connections."""

    def __init__(self, guard: Guard, agent: str, unix_time: Callable[[], float] = time.time) -> None:
        self._guard = guard
        self._unix_time = unix_time
        connector = aiohttp.TCPConnector(
            resolver=GuardedResolver(guard), limit=0, use_dns_cache=False, keepalive_timeout=30.0
        )
        self._session = aiohttp.ClientSession(
            connector=connector, headers={"user-agent": agent}, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False,
            auto_decompress=False,
        )  # fmt: skip

    async def send(self, attempt: Attempt) -> Outcome:
        """Make an attempt; whatever happens is an outcome."""
        subscription = attempt.subscription
        item = revived(attempt.item)
        _, host, port = destination(subscription.url)
        if (refusal := self._refusal(host, port)) != "":
            return Outcome(0, refusal)
        if subscription.format == "carrier":
            body = carrier_body(item)
        else:
            body = item.payload
        headers = headers_of(subscription.id, subscription.secrets, item, body, self._unix_time())
        if subscription.format == "carrier":
            headers["content-type"] = "application/json"
        timeout = aiohttp.ClientTimeout(total=subscription.timeout, sock_connect=CONNECT_TIME)
        try:
            async with self._session.post(
                subscription.url, data=body, headers=headers, allow_redirects=False, timeout=timeout
            ) as answer:
                if answer.content_length is None or answer.content_length > 0:
                    await answer.content.read(ANSWER_SIZE)
                return Outcome(answer.status, "", self._retry_after(answer.headers.get("retry-after")))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            if isinstance(cause, RefusedAddressError):
                return Outcome(0, str(cause))
            return Outcome(0, _words(error), is_connected=False)
        except TimeoutError:
            return Outcome(0, f"no answer within {subscription.timeout:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Outcome(0, _words(error))

    def _refusal(self, host: str, port: int) -> str:
        """Why a host that is an address is refused; names are checked when they are resolved."""
        return self._guard.refusal(host, port) if is_address(host) else ""

    def _retry_after(self, text: str | None) -> float | None:
        """Seconds or a date (RFC 9110, section 10.2.3); None for anything else."""
        if text is None:
            return None
        if text.isascii() and text.isdigit() and len(text) < 10:
            return float(text)
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - self._unix_time())
        except (ValueError, OverflowError):
            return None

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


def _words(error: Exception) -> str:
    return f"{error}"[:200] or type(error).__name__
