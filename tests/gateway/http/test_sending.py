"""How a delivery is sent: to checked addresses, with the headers of the page, and what each ending means."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from glue.errors import CorruptStorageError
from glue.gateway.http import sender
from glue.gateway.http.guard import Guard
from glue.gateway.http.items import Attempt, Outcome
from glue.gateway.http.lanes import Slot
from glue.gateway.http.sender import GuardedResolver, RefusedAddressError, Sender
from glue.gateway.http.signing import Item, is_signed
from glue.gateway.http.store import FileStore
from glue.gateway.http.subscriptions import Subscription
from glue.storage import Record

SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()


def attempt(url: str = "http://10.0.0.1:80/hook", **more: Any) -> Attempt:
    item = Item(5, Record("a" * 16, "kitchen", 1, "t/x", 9, [b"body"], 1e9, type="kind"), 0)
    subscription = Subscription("s", "t/#", url, (SECRET,), **more)
    return Attempt("s", Slot(5, item, 0.0), item, subscription, 1)


class Answer:
    """An answer of a subscriber."""

    def __init__(self, status: int = 204, length: int | None = 0, **headers: str) -> None:
        self.status, self.content_length = status, length
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.read: list[int] = []
        self.content = SimpleNamespace(read=self._read)

    async def _read(self, size: int) -> bytes:
        self.read.append(size)
        return b""


class Session:
    """What connects."""

    def __init__(self, ending: Answer | Exception) -> None:
        self.ending, self.posted = ending, list[Any]()

    def post(self, url: str, **options: Any) -> Any:
        self.posted.append((url, options))
        session = self

        class Posting:
            async def __aenter__(self) -> Answer:
                if isinstance(session.ending, Exception):
                    raise session.ending
                return session.ending

            async def __aexit__(self, *_: object) -> None:
                return None

        return Posting()


def sent(ending: Answer | Exception, asked: Attempt | None = None) -> tuple[Outcome, Session]:
    async def program() -> tuple[Outcome, Session]:
        made = Sender(Guard(["10.0.0.0/8"]), "glue/x", lambda: 1_700_000_000.7)
        await made.close()
        made._session = session = Session(ending)  # type: ignore[assignment]
        return await made.send(asked or attempt()), session

    return asyncio.run(program())


def test_a_delivery_is_posted_once_signed_and_within_its_time() -> None:
    answer = Answer(200, 5)
    outcome, session = sent(answer, attempt(timeout=3.5))
    ((url, options),) = session.posted
    assert (outcome, url, options["data"]) == (Outcome(200), "http://10.0.0.1:80/hook", b"body")
    assert options["allow_redirects"] is False
    assert (options["timeout"].total, options["timeout"].sock_connect) == (3.5, 5.0)
    headers = options["headers"]
    assert headers["content-type"] == "application/octet-stream"
    assert headers["webhook-timestamp"] == "1700000000"
    told = headers["webhook-id"], headers["webhook-timestamp"], b"body", headers["webhook-signature"]
    assert is_signed([SECRET], *told, 1_700_000_000.0)
    assert answer.read == [16 << 10]
    for length, is_read in ((0, False), (None, True), (1, True)):
        answer = Answer(204, length)
        sent(answer)
        assert bool(answer.read) == is_read


def test_a_subscriber_of_carrier_gets_json() -> None:
    _, session = sent(Answer(), attempt(format="carrier"))
    options = session.posted[0][1]
    assert json.loads(options["data"]) == {"payload": "Ym9keQ==", "payloadType": "kind"}
    assert options["headers"]["content-type"] == "application/json"


def connecting(error: OSError) -> aiohttp.ClientConnectorError:
    key: Any = SimpleNamespace(host="h", port=1, ssl=True)
    return aiohttp.ClientConnectorError(key, error)


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        (Answer(500), Outcome(500)),
        (Answer(429, retry_after="7"), Outcome(429, "", 7.0)),
        (TimeoutError(), Outcome(0, "no answer within 15 s")),
        (aiohttp.ServerDisconnectedError("cut"), Outcome(0, "cut")),
        (ValueError("x" * 300), Outcome(0, "x" * 200)),
        (OSError(), Outcome(0, "OSError")),
        (aiohttp.ConnectionTimeoutError("slow"), Outcome(0, "slow", is_connected=False)),
        (connecting(RefusedAddressError("it is this door")), Outcome(0, "it is this door")),
    ],
)
def test_each_ending_is_an_outcome(ending: Any, outcome: Outcome) -> None:
    assert sent(ending)[0] == outcome


def test_a_host_that_cannot_be_connected_to_is_told_as_such() -> None:
    outcome, _ = sent(connecting(ConnectionRefusedError(111, "refused")))
    assert (outcome.status, outcome.is_connected) == (0, False)
    assert "h:1" in outcome.error


def test_an_address_that_must_not_be_called_is_not_called() -> None:
    for url, words in (
        ("http://192.168.0.1/", "192.168.0.1 is not in an allowed network; deliveries go to 10.0.0.0/8 only"),
        ("http://[::1]/", "::1 is loopback; deliveries go to 10.0.0.0/8 only"),
    ):
        outcome, session = sent(Answer(), attempt(url))
        assert (outcome, session.posted) == (Outcome(0, words), [])
    assert sent(Answer(), attempt("http://name.lan/"))[0] == Outcome(204), "a name is checked when it is resolved"


def test_a_name_is_resolved_to_checked_addresses_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(socket.AF_INET, 1, 6, "", ("10.0.0.7", 80)), (socket.AF_INET6, 1, 6, "", ("10.0.0.8", 80, 0, 0))]
    asked: list[Any] = []

    async def program() -> Any:
        async def getaddrinfo(*told: Any, **options: Any) -> Any:
            asked.append((told, options))
            return answers

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
        resolver = GuardedResolver(Guard(["10.0.0.0/8"]))
        found = await resolver.resolve("name.lan", 80, socket.AF_INET)
        answers.append((socket.AF_INET, 1, 6, "", ("127.0.0.1", 80)))
        with pytest.raises(RefusedAddressError, match=r"127\.0\.0\.1 is loopback"):
            await resolver.resolve("name.lan", 80)
        return found

    found = asyncio.run(program())
    assert asked == [
        (("name.lan", 80), {"family": family, "type": socket.SOCK_STREAM}) for family in (socket.AF_INET, 0)
    ]
    common = {"hostname": "name.lan", "port": 80, "proto": 0, "flags": socket.AI_NUMERICHOST}
    assert found == [
        {**common, "host": "10.0.0.7", "family": socket.AF_INET},
        {**common, "host": "10.0.0.8", "family": socket.AF_INET6},
    ]


def test_a_session_keeps_no_cookies_asks_no_proxy_and_says_who_it_is() -> None:
    async def program() -> None:
        made = Sender(Guard(), "glue/1.2")
        session = made._session
        assert (session.headers["user-agent"], session.trust_env, session.auto_decompress) == ("glue/1.2", False, False)
        assert isinstance(session.cookie_jar, aiohttp.DummyCookieJar)
        connector: Any = session.connector
        assert (connector.limit, connector.use_dns_cache, connector._keepalive_timeout) == (0, False, 30.0)
        assert isinstance(connector._resolver, GuardedResolver)
        await made.close()
        assert session.closed

    asyncio.run(program())
    assert sender.CONNECT_TIME == 5.0


def test_files_of_a_door_have_what_was_put_there_and_a_damaged_one_is_named(tmp_path: Any) -> None:
    async def program() -> None:
        store = FileStore(tmp_path)
        await store.open()
        assert (store.subscriptions, store.topics) == ({}, set())
        await store.put("s", {"id": "s"})
        await store.put("gone", {"id": "gone"})
        await store.create("t")
        await store.save({"s": {"offset": 5}, "gone": {"offset": 6}, "gone/replay": {"offset": 7}})
        await store.put("gone", None)
        await store.save({"gone/replay": None, "unknown": None})
        store.close()
        again = FileStore(tmp_path)
        await again.open()
        assert (again.subscriptions, again.topics) == ({"s": {"id": "s"}}, {"t"})
        assert [await again.position(one) for one in ("s", "gone", "gone/replay")] == [{"offset": 5}, None, None]
        again.close()
        for name in sorted(path.name for path in tmp_path.iterdir() if path.stat().st_size):
            content = (tmp_path / name).read_bytes()
            for damaged, words in ((b"{", f"{name} is damaged: "), (b"[]", f"{name} is damaged: expected an object")):
                (tmp_path / name).write_bytes(damaged)
                broken = FileStore(tmp_path)
                with pytest.raises(CorruptStorageError, match=words):
                    await broken.open()
                broken.close()
            (tmp_path / name).write_bytes(content)

    asyncio.run(program())
