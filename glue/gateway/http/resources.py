"""Subscriptions as resources: create, list, change, pause, delete; deliveries and dead letters."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from dataclasses import replace

from aiohttp import web

from glue.gateway.http.dead_letters import dead_topic, shown
from glue.gateway.http.door import Door
from glue.gateway.http.lanes import matcher
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.routes import Route, answer, check_subscribe, document_of, flag, start_time, text_of
from glue.gateway.http.signing import Item, new_secret
from glue.gateway.http.subscriptions import Subscription, changed
from glue.gateway.http.tokens import Rights

LETTERS = 1_000
"""Dead letters in an answer."""


def known(door: Door, rights: Rights, request: web.Request) -> Subscription:
    """Return the subscription that a path names. Raises ProblemError, also for one of another client."""
    found = door.delivering.subscriptions.get(request.match_info["id"])
    if found is None or not (rights.admin or found.owner == rights.name):
        raise ProblemError(404, f"no subscription {request.match_info['id']!r:.80}")
    return found


def state_of(door: Door, subscription: Subscription) -> dict[str, object]:
    """Return a subscription as clients see it, with how its deliveries go."""
    lane = door.delivering.machine.lanes.get(subscription.id)
    found = subscription.shown()
    if lane is not None:
        durable = door.delivering.journal.recent.durable
        found |= {
            "failures": lane.failures, "failing": lane.alerted, "under_way": len(lane.slots),
            "behind": 0 if lane.is_idle and not lane.slots else max(0, durable - lane.position),
        }  # fmt: skip
    elif reason := forbidden(door, subscription):
        found["forbidden"] = reason
    else:
        found["delivered_by"] = "another door"
    return found


def forbidden(door: Door, subscription: Subscription) -> str | None:
    """Return the rule by which nothing is delivered to a subscription of this door; None if there is none."""
    return door.delivering.forbidden.get(subscription.id) if door.delivering.is_owner(subscription.id) else None


async def create(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Create a subscription; the answer has its secret, which is not shown again."""
    wanted = await document_of(door, request)
    text_of(wanted, "topic")
    text_of(wanted, "url")
    start = wanted.get("start")
    if start is not None and not isinstance(start, str):
        raise ProblemError(400, "'start': expected earliest, latest, a time, or such as 10m", pointer="/start")
    blank = Subscription(secrets.token_hex(8), "", "", owner=rights.name, created=time.time())
    made = changed(blank, {name: value for name, value in wanted.items() if name != "start"}, door.limits)
    check_subscribe(rights, made.topic)
    if not made.secrets:
        made = replace(made, secrets=(new_secret(os.urandom),))
    begin = None if start in (None, "latest") else start if start == "earliest" else start_time(str(start))
    await door.delivering.add(made, begin)
    location = {"location": f"/v1/subscriptions/{made.id}"}
    return answer({**state_of(door, made), "secret": made.secrets[0]}, 201, location)


async def show_all(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """List the subscriptions of this client, or with admin rights all."""
    found = [
        state_of(door, one)
        for one in door.delivering.subscriptions.values()
        if rights.admin or one.owner == rights.name
    ]
    return answer({"subscriptions": found})


async def show(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Show a subscription."""
    return answer(state_of(door, known(door, rights, request)))


async def change(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Change a subscription: `"state": "paused"` and `"active"`, a new `secret`, another address."""
    subscription = known(door, rights, request)
    wanted = await document_of(door, request)
    if "topic" in wanted or "format" in wanted:
        raise ProblemError(409, "topic and format stay; make another subscription")
    made = changed(subscription, wanted, door.limits)
    if not await door.delivering.change(made):
        raise ProblemError(404, f"no subscription {made.id!r:.80}")  # it was deleted meanwhile
    return answer(state_of(door, made))


async def delete(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Delete a subscription; what it has not got is not delivered any more."""
    await door.delivering.remove(known(door, rights, request).id)
    return web.Response(status=204)


async def deliveries(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Show the last attempts, and what is under way."""
    subscription = known(door, rights, request)
    lane = door.delivering.machine.lanes.get(subscription.id)
    now = time.monotonic()
    slots = [] if lane is None else [
        {
            "offset": slot.offset, "attempts": slot.attempts, "is_under_way": slot.is_flying,
            "next_attempt_in": None if slot.is_flying else round(max(0.0, max(slot.due, lane.next_at) - now), 3),
            "reason": slot.reason,
        }
        for slot in lane.slots.values()
    ]  # fmt: skip
    last = [] if lane is None else [
        {"offset": one["offset"], "attempt": one["attempt"], "result": one["result"]} for one in lane.history
    ]  # fmt: skip
    return answer({"under_way": slots, "last": last})


async def dead_letters(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """List the dead letters that were not replayed; with `all=1` list all."""
    subscription = known(door, rights, request)
    delivering = door.delivering
    log = delivering.journal.recent.log
    offset = log.first if flag(request, "all") else await delivering.dead_from(subscription.id)
    matches, found = matcher(dead_topic(subscription.id)), list[dict[str, object]]()
    while offset < log.durable and len(found) < LETTERS:
        reading = await asyncio.to_thread(log.read, matches, offset, 256 << 10)
        found += [
            shown(Item(at + place, record, place))
            for at, record in reading.records for place in range(len(record.payloads))
        ]  # fmt: skip
        offset = max(reading.next, offset + 1)
    return answer({"dead_letters": found[:LETTERS]})


async def replay(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Deliver the dead letters again, in order, beside what comes."""
    subscription = known(door, rights, request)
    if reason := forbidden(door, subscription):
        raise ProblemError(409, f"nothing is delivered to this subscription: {reason}")
    if subscription.id not in door.delivering.machine.lanes:
        raise ProblemError(409, "another door delivers to this subscription; ask that one")
    await door.delivering.replay(subscription.id)
    return answer({"replayed": True}, 202)


_BODY = '{"topic", "url", "secret", "parallel", "timeout", "give_up_after", "start"}'

ROUTES = [
    Route(
        "POST", "/v1/subscriptions", create, "Create a subscription", body=_BODY, needs=["topic", "url"],
        answers={201: "With its secret"},
    ),
    Route("GET", "/v1/subscriptions", show_all, "List subscriptions"),
    Route("GET", "/v1/subscriptions/{id}", show, "Show a subscription", answers={404: "There is none"}),
    Route(
        "PATCH", "/v1/subscriptions/{id}", change, "Pause, resume or change a subscription",
        body='{"state", "url", "secret", "parallel", "timeout", "give_up_after"}', answers={404: "There is none"},
    ),
    Route("DELETE", "/v1/subscriptions/{id}", delete, "Delete a subscription", answers={204: "It is gone"}),
    Route("GET", "/v1/subscriptions/{id}/deliveries", deliveries, "Show its deliveries"),
    Route("GET", "/v1/subscriptions/{id}/dead-letters", dead_letters, "List its dead letters", {"all": "1: all"}),
    Route(
        "POST", "/v1/subscriptions/{id}/dead-letters/replay", replay, "Deliver its dead letters again",
        answers={202: "It begins"},
    ),
]  # fmt: skip
