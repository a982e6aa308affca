"""The parts that decide alone: signatures, addresses, tokens, the ring of streams, keys of repeated requests."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from glue.errors import ConfigurationError
from glue.gateway.descriptors import OTHER_FILES
from glue.gateway.http import webhook
from glue.gateway.http.dead_letters import properties_of, revived
from glue.gateway.http.guard import Guard, check_url
from glue.gateway.http.idempotency import Idempotency
from glue.gateway.http.journal import Journal
from glue.gateway.http.lanes import RETRIES, retry_delay
from glue.gateway.http.limits import Limits, fitted
from glue.gateway.http.places import Token, token_of
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.signing import Item, headers_of, is_signed, message_id, new_secret, signature
from glue.gateway.http.subscriptions import Subscription, changed
from glue.gateway.http.tail import Entry, Tail
from glue.gateway.http.tokens import EVERYTHING, Access, Rights, add_token, remove_token
from glue.storage import JSON, MemoryLog, Record

SECRET = new_secret(Random(1).randbytes)
OTHER = new_secret(Random(2).randbytes)
ITEM = Item(7, Record("0" * 16, "kitchen", 5, "home/lamp ü", 3, [b'{"on":true}'], 1e9, 0, JSON, "state"), 0)


def test_a_signature_is_that_of_standard_webhooks() -> None:
    expected = hmac.new(base64.b64decode(SECRET[6:]), b"msg_1.1700000000.body", hashlib.sha256).digest()
    assert signature([SECRET], "msg_1", 1_700_000_000, b"body") == "v1," + base64.b64encode(expected).decode()


def test_two_secrets_sign_while_one_replaces_the_other() -> None:
    both = signature([SECRET, OTHER], "m", 100, b"x")
    for known in (SECRET, OTHER):
        assert is_signed([known], "m", "100", b"x", both, 150.0)
    assert not is_signed([SECRET], "m", "100", b"y", both, 150.0)
    assert not is_signed([SECRET], "m", "100", b"x", both, 500.0), "too old"
    assert not is_signed([SECRET], "m", "1e2", b"x", both, 100.0)


def test_a_receiver_opens_what_a_door_sends() -> None:
    hook = webhook.Webhook(SECRET, clock=lambda: 2e9)
    headers = headers_of("s", [OTHER, SECRET], ITEM, ITEM.payload, 2e9)
    event = hook.open(headers, ITEM.payload)
    assert (event.topic, event.payload, event.publisher, event.sequence) == ("home/lamp ü", {"on": True}, "kitchen", 3)
    assert not event.is_duplicate
    hook.done(event)
    assert hook.open(headers, ITEM.payload).is_duplicate
    later = Item(9, replace(ITEM.record, sequence=6), 0)
    told = headers_of("s", [SECRET], later, b"1", 2e9)
    assert hook.open(told, b"1").missed == 2
    with pytest.raises(webhook.SignatureError):
        hook.open({**headers, "webhook-id": "msg_0"}, ITEM.payload)


def test_headers_cannot_be_broken_by_names() -> None:
    record = Record("0" * 16, "k\r\nx: y", 1, "a\nb", 1, [b""], 0.0, 0, 0, "t\r\n", None, {"content-type": "a/b\nc"})
    for value in headers_of("s", [SECRET], Item(0, record, 0), b"", 0.0).values():
        assert value.isascii()
        assert value.isprintable()


def test_a_dead_letter_revives_as_the_message_that_it_was() -> None:
    dead = Record("f" * 16, "door", 1, "$dead/s", 1, [ITEM.payload], 2e9, 0, 0, None, None, properties_of(ITEM, "500"))
    found = revived(Item(99, dead, 0))
    assert (found.payload, found.sequence, found.record.topic) == (ITEM.payload, 3, "home/lamp ü")
    assert message_id("s", found) == message_id("s", ITEM)
    assert len(message_id("s", ITEM)) == len("msg_") + 32
    forged = Record("f" * 16, "x", 1, "$dead/s", 1, [b"x"], 0.0, properties={"glue-dead-topic": "a"})
    assert revived(Item(1, forged, 0)).record is forged
    for wrong in ("nan", "inf", "1e300", "soon"):
        forged = replace(dead, properties={**dead.properties, "glue-dead-at": wrong})
        assert revived(Item(1, forged, 0)).record is forged, wrong


@pytest.mark.parametrize("address", [
    "127.0.0.1", "::1", "169.254.169.254", "::ffff:127.0.0.1", "fe80::1%eth0", "0.0.0.0", "224.0.0.1", "8.8.8.8",
    "64:ff9b::7f00:1", "2002:7f00:1::", "no address", "10.0.0.9",
])  # fmt: skip
def test_an_address_outside_of_the_lan_is_refused(address: str) -> None:
    guard = Guard()
    guard.add_own(["10.0.0.9"], 80)
    assert guard.refusal(address, 80)


def test_addresses_of_the_lan_and_allowed_ones_are_called() -> None:
    assert not Guard().refusal("192.168.1.7", 80)
    assert not Guard().refusal("fd00::1", 80)
    guard = Guard(["127.0.0.0/8"])
    guard.add_own([], 8080)
    assert not guard.refusal("127.0.0.1", 9000)
    assert "this door" in guard.refusal("127.0.0.1", 8080)
    assert guard.refusal("192.168.1.7", 80)
    with pytest.raises(ConfigurationError, match=r"192\.168"):
        Guard(["home"])


@pytest.mark.parametrize(
    "url", ["", 1, "ftp://x/", "http://", "http://u:p@x/", "http://x:0/", "http://x/\n", "x" * 3000]
)
def test_an_address_that_is_none_is_refused(url: Any) -> None:
    with pytest.raises(ConfigurationError):
        check_url(url)


def test_retries_grow_to_five_minutes() -> None:
    assert [retry_delay(n, 0.5) for n in range(1, 9)] == list(RETRIES)
    assert retry_delay(1000, 1.0) == 300.0


@pytest.mark.parametrize("wanted", [
    {"url": "x"}, {"parallel": 0}, {"parallel": True}, {"timeout": -1}, {"give_up_after": "1h"}, {"state": "gone"},
    {"secret": "short"}, {"secret": SECRET + "!"}, {"secret": 5}, {"urll": "http://x"}, {"topic": "a/#/b"},
    {"format": "xml"},
])  # fmt: skip
def test_a_wrong_member_of_a_subscription_is_refused(wanted: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|base64|member|must be"):
        changed(Subscription("s", "t", "http://10.0.0.1/"), wanted, Limits())


def test_a_new_secret_is_used_beside_the_one_before() -> None:
    known = Subscription("s", "t", "http://10.0.0.1/", secrets=(SECRET,))
    both = changed(known, {"secret": OTHER}, Limits())
    assert both.secrets == (OTHER, SECRET)
    assert changed(both, {"secret": OTHER}, Limits()).secrets == (OTHER, SECRET), "some know the old one alone"
    assert changed(both, {"secret": None}, Limits()).secrets == (OTHER,)
    assert both.shown()["secrets"] == 2


def test_a_token_may_do_what_its_patterns_say(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    token = add_token(path, "kitchen", ["home/kitchen/#"], ["home/#"])
    add_token(path, "panel", [], ["home/+"], for_certificate=True)
    assert token not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    access = Access(path)
    rights = access.rights(token)
    assert rights is not None
    assert rights.may_publish("home/kitchen/lamp")
    assert not rights.may_publish("home/hall/lamp")
    assert rights.may_subscribe("home/+/lamp")
    assert not rights.may_subscribe("#")
    assert not rights.may_subscribe("$model/plant/#")
    assert access.rights("glue_wrong") is None
    assert access.rights(None) is None
    assert access.rights(None, "panel") == Rights("panel", (), ("home/+",))
    remove_token(path, "kitchen")
    access.check()
    assert access.rights(token) is None
    path.write_text("{}\n")
    access.check()  # a wrong file changes nothing
    assert access.rights(None, "panel") is not None
    with pytest.raises(ConfigurationError, match="line 1"):
        Access(path)


def test_clients_of_this_machine_are_let_in_without_a_token() -> None:
    access = Access(local=EVERYTHING)
    assert access.rights(None, "", True) is EVERYTHING
    guests = Rights("guest", ("a",), ("b",))
    assert Access(anonymous=guests).rights(None, "", True) is guests
    assert Access(anonymous=guests, local=EVERYTHING).rights(None) is guests
    assert access.rights(None, "", False) is None


def test_a_reader_of_the_ring_gets_its_topics_and_is_woken_for_them_alone() -> None:
    tail, woken = Tail("door", 1 << 20), []
    place = tail.open(["a/+"], None, lambda: woken.append(1))
    assert tail.read(place, 10) == []
    tail.append(Entry("b", b"{}"))
    assert not woken
    tail.append(Entry("a/1", b"{1}"))
    tail.append(Entry("a/2", b"{2}"))
    assert woken == [1]
    assert [(offset, entry.topic) for offset, entry in tail.read(place, 1)] == [(1, "a/1")]
    again = tail.open(["a/+"], 2, lambda: None)
    assert [entry.text for _, entry in tail.read(again, 10)] == [b"{2}"]
    tail.close(["a/+"], place)


def test_a_slow_reader_of_the_ring_is_told_what_it_missed() -> None:
    tail = Tail("door", 10 * 300)
    place = tail.open(["#"], 0, lambda: None)
    for number in range(25):
        tail.append(Entry("t", b"%100d" % number))
    found = tail.read(place, 100)
    assert place.missed == 15
    assert [int(entry.text) for _, entry in found] == list(range(15, 25))


@pytest.mark.parametrize(
    "token", [Token("a-1", 0), Token("a", 10**18 - 1, "0f", 5, "", 0), Token("log", 0, "0f", 5, "ab", 7)]
)
def test_a_token_is_read_as_it_was_written(token: Token) -> None:
    assert token_of(token.text) == token


@pytest.mark.parametrize(
    "text", ["", "door", "door.x", "door.-1", "door.\u0661", "door." + "9" * 30, "a.1.b.2", "a.1\n"]
)
def test_another_text_is_no_token(text: str) -> None:
    assert token_of(text) is None


def test_a_repeated_request_gets_the_first_answer_also_after_a_restart(tmp_path: Path) -> None:
    path, clock, calls = tmp_path / "keys", [1000.0], list[int]()

    async def work() -> tuple[int, dict[str, Any]]:
        calls.append(1)
        await asyncio.sleep(0)
        return 202, {"n": len(calls)}

    async def program() -> None:
        keys = Idempotency(3, 100.0, path, lambda: clock[0])
        both = await asyncio.gather(keys.once("a", "k", b"x", work), keys.once("a", "k", b"x", work))
        assert [*both] == [(202, {"n": 1})] * 2
        assert await keys.once("b", "k", b"x", work) == (202, {"n": 2}), "keys are those of one client"
        with pytest.raises(ProblemError, match="another request"):
            await keys.once("a", "k", b"y", work)
        keys.close()
        with path.open("ab") as file:
            file.write(b'["torn')
        keys = Idempotency(3, 100.0, path, lambda: clock[0])
        assert await keys.once("a", "k", b"x", work) == (202, {"n": 1})
        clock[0] += 101.0
        assert await keys.once("a", "k", b"x", work) == (202, {"n": 3}), "a day is over"
        for key in "lmno":
            await keys.once("a", key, b"x", work)
        assert len(keys._known) == 3
        keys.close()

    asyncio.run(program())


def test_a_missing_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['aiohttp'] = None\n"
        "from glue.cmd import http\n"
        "sys.exit(http.main(['--interface', 'lo', '--port', '0']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "pip install 'glue-lan[http]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("is_back_in_time", [True, False])
def test_a_client_that_goes_and_comes_back_with_its_key_does_not_publish_twice(is_back_in_time: bool) -> None:
    async def run() -> None:
        keys, begun, ends = Idempotency(10, 60.0, None, lambda: 1000.0), asyncio.Event(), asyncio.Event()
        calls = list[int]()

        async def work() -> tuple[int, dict[str, Any]]:
            calls.append(1)
            begun.set()
            await ends.wait()
            return 202, {"call": len(calls)}

        first = asyncio.create_task(keys.once("me", "k", b"body", work))
        await begun.wait()
        second = asyncio.create_task(keys.once("me", "k", b"body", work))
        await asyncio.sleep(0)
        with pytest.raises(ProblemError, match="another request"):
            await asyncio.wait_for(keys.once("me", "k", b"other", work), 5.0)
        first.cancel()  # its client is gone
        if not is_back_in_time:
            second.cancel()
        await asyncio.sleep(0)
        ends.set()
        if is_back_in_time:
            assert await second == (202, {"call": 1})
        for _ in range(3):
            await asyncio.sleep(0)
        assert await keys.once("me", "k", b"body", work) == (202, {"call": 1})

    asyncio.run(run())


def test_a_door_that_closes_leaves_no_request_at_work() -> None:
    async def run() -> None:
        keys = Idempotency(10, 60.0, None, lambda: 1000.0)
        first = asyncio.create_task(keys.once("me", "k", b"body", asyncio.Event().wait))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        keys.close()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_connections_and_deliveries_leave_files_for_the_log() -> None:
    limits = Limits()
    assert fitted(limits, 1 << 20) is limits
    small = fitted(limits, 1024)
    assert small.connections + small.attempts + OTHER_FILES == 1024
    assert small.connections == small.attempts
    assert small.doubtful == limits.doubtful
    least = fitted(limits, 64)
    assert (least.connections, least.attempts, least.doubtful) == (8, 8, 4)
    few = fitted(Limits(connections=2_000, attempts=10, doubtful=9), 64)
    assert (few.connections, few.attempts, few.doubtful) == (15, 8, 4)


def test_a_door_takes_what_was_durable_a_second_ago_as_received() -> None:
    log, now, told = MemoryLog("log"), [100.0], list[tuple[int, int]]()

    async def keep(*_: object, **__: object) -> Any:
        return SimpleNamespace(log=log, _watch=lambda watcher: None, close=lambda: None)

    def store(journal: Journal, count: int) -> None:
        record = Record("0" * 16, "kitchen", 1, "t", log.end + 1, [b"1"] * count)
        begin, end = log.end, log.append([record])
        journal.appended(begin, end, [record])
        journal.synced(log.durable)

    async def run() -> None:
        endpoint: Any = SimpleNamespace(keep=keep, _core=SimpleNamespace(guard=None))
        journal = Journal(endpoint, None, lambda before, new: told.append((before, len(new or ()))))
        loop: Any = SimpleNamespace(time=lambda: now[0], call_soon_threadsafe=lambda call, *more: call(*more))
        journal._loop = loop
        await journal.open()
        await journal.want("t")
        assert (journal.keeps("t"), journal.keeps("u"), journal.covers(["t"]), journal.covers(["t", "u"])) == (
            True, False, True, False,
        )  # fmt: skip
        settled = []
        for time, count in ((100.0, 2), (100.5, 1), (101.25, 0), (101.5, 4), (102.25, 0), (102.5, 0)):
            now[0] = time
            if count:
                store(journal, count)
            settled.append(journal.settled)
        assert settled == [0, 0, 2, 3, 3, 7]
        assert told == [(0, 1), (2, 1), (3, 1)]
        journal.close()
        store(journal, 1)
        assert len(told) == 3
        await journal.unwant("t")
        assert not journal.keeps("t")

    asyncio.run(run())
