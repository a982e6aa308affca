"""See a machine and its segment in less than five seconds.

0.0 s  listen to the group on all interfaces, start an endpoint, read the firewall meanwhile
1.1 s  all endpoints ping each other
2.5 s  all are asked for their report and for what came of the pings, those without an answer again
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import glue
from glue.doctor.lanes import ways_of
from glue.doctor.seen import EndpointSeen, MachineSeen, Seen
from glue.endpoint.inquiring import begin_round
from glue.endpoint.sections import SECTIONS
from glue.errors import GlueError, PortInUseError
from glue.network import choose_interface, parse_group
from glue.observing import machine
from glue.observing.listening import Listener
from glue.observing.reports import endpoint_seen, with_paths
from glue.settings import effective
from glue.sync.examining import ask_all

MEETING = 1.0  # seconds in which an announcement of each endpoint comes, with the usual interval of a second
PINGS = ((8, 30), (25, 20), (1 << 30, 8))  # for up to so many peers, so many pings
MARGIN = 0.25  # seconds after the last ping
ANSWERS = 1.0  # seconds to wait for answers
PATIENCE, AGAIN = 0.2, 0.4
LATEST = 4.4  # seconds after which nobody is asked again
UNREACHED = 3  # answers of an endpoint that knows of no round, after which the round did not reach it
WAITED = 0.4  # seconds for which this program waits for the processor on a machine that is too busy
PING_SPACING, PROOF = 0.035, 0.1
SECTIONS_ASKED = "report", "links", "paths"

Pause = Callable[[float], None]


class Observer:
    """One look. `settings` are the keywords of an endpoint."""

    def __init__(self, settings: dict[str, Any], pause: Pause = time.sleep) -> None:
        """`pause` waits so many seconds, and may raise."""
        self.settings = effective(settings)
        self._keywords = {"announce_interval": 0.25, **settings}
        self._pause = pause
        self._started = time.monotonic()
        self._is_busy = False
        self._stale = set[str]()  # endpoints that may have told what came before the last pings were sent
        self._firewall: tuple[tuple[str, ...], bool] = ((), True)

    def look(self) -> Seen:
        """See all; takes up to 4.5 s."""
        endpoint = glue.Endpoint(**self._keywords)
        errors, self._waited = machine.error_counters(), machine.processor_waits()
        listener = Listener(self.settings.multicast_address)
        is_listening = listener.start()
        reader = threading.Thread(target=self._read_firewall, name="glue doctor firewall", daemon=True)
        reader.start()
        try:
            try:
                endpoint.start()
            except (GlueError, OSError) as error:
                self._pause(MEETING)
                return self._seen(listener, None, (), {}, errors, reader, failure=error)
            found = self._examine(endpoint)
            listener_own = endpoint.id if is_listening else None
            return self._seen(listener, endpoint, *found, errors, reader, own=listener_own)
        finally:
            listener.stop()
            endpoint.close(0.0)

    def _read_firewall(self) -> None:
        port = parse_group(self.settings.multicast_address).port
        self._firewall = machine.firewall((port, self.settings.listen_port or 37319))

    def _examine(self, endpoint: glue.Endpoint) -> tuple[tuple[EndpointSeen, ...], dict[str, Any]]:
        """Have all ping each other, and ask what came."""
        self._pause(MEETING)
        pings = next(pings for most, pings in PINGS if len(endpoint.peers) <= most)
        number = begin_round(endpoint, pings)
        self._pause(PROOF + pings * PING_SPACING + MARGIN)
        asked_at = time.time()
        answers = {one.id: dict(one.sections) for one in ask_all(endpoint, SECTIONS_ASKED, ANSWERS)}
        ended_at = time.time()
        own = self._complete(endpoint, number, pings, answers)
        self._round, self._pings = number, pings
        links = {endpoint.id: own["links"], **{id: told["links"] for id, told in answers.items() if "links" in told}}
        return self._endpoints(endpoint, own, answers, (asked_at + ended_at) / 2, ended_at - asked_at), links

    def _complete(self, endpoint: glue.Endpoint, number: int, pings: int, answers: dict[str, Any]) -> dict[str, Any]:
        """Ask for the links again while some may be late; returns what the doctor's own endpoint tells.

        Once all have sent their pings, one more answer comes after them. What is missing then is lost. An endpoint that
        answers, and knows of no round, was not reached by multicast.
        """
        own, is_confirmed, unreached = _own(endpoint), False, 0
        unbegun = set[str]()
        while True:
            told = {endpoint.id: own["links"], **{id: one["links"] for id, one in answers.items() if "links" in one}}
            late = {id: one for id, one in told.items() if _is_late(one, number, pings)}
            waiting = {id for id, one in late.items() if not _has_begun(one, number)}  # they may not have heard of it
            is_late = len(late) > len(waiting) or bool(unbegun - waiting)
            unbegun = waiting
            if not late and (is_confirmed or not _misses(number, pings, told, endpoint.id)):
                return own
            self._is_busy = self._is_busy or is_late
            unreached = unreached + 1 if late and not is_late else 0
            if unreached >= UNREACHED or time.monotonic() - self._started > LATEST:
                if is_late or not late:
                    self._is_busy = True
                    self._stale = set(answers)
                return own
            is_confirmed = not late
            self._pause(PATIENCE)
            self._stale = set(answers)
            for again in ask_all(endpoint, ["links"], AGAIN):
                answers.setdefault(again.id, {}).update(again.sections)
                self._stale.discard(again.id)
            own = _own(endpoint)

    def _endpoints(
        self, endpoint: glue.Endpoint, own: dict[str, Any], answers: dict[str, Any], at: float, width: float
    ) -> tuple[EndpointSeen, ...]:
        here = {address for one in machine.interfaces({}, {}) for address in (*one.ipv4, *one.ipv6)}
        hosts = {address.partition("/")[0] for address in here}
        known = {one["id"]: one for one in own["links"].get("peers", ())}
        doctor = EndpointSeen(name=endpoint.name, id=endpoint.id, is_doctor=True, here=True)
        found = [with_paths(endpoint_seen(doctor, own["report"], None, 0.0), own["paths"])]
        for peer in endpoint.peers:
            told, link = answers.get(peer.id), known.get(peer.id, {})
            host = str(peer.address[0]).partition("%")[0] if peer.address else ""
            bare = EndpointSeen(
                name=peer.name,
                id=peer.id,
                address=host,
                here=host in hosts,
                answered=told is not None and "report" in told,
                proven=bool(link.get("proven")) or bool(link.get("pongs")),
            )
            if told and "report" in told:
                bare = with_paths(endpoint_seen(bare, told["report"], at, width), told.get("paths"))
            found.append(bare)
        return tuple(found)

    def _seen(
        self,
        listener: Listener,
        endpoint: glue.Endpoint | None,
        endpoints: tuple[EndpointSeen, ...],
        links: dict[str, Any],
        errors: dict[str, int],
        reader: threading.Thread,
        failure: Exception | None = None,
        own: str | None = None,
    ) -> Seen:
        reader.join(1.0)
        senders, heard, looped = listener.senders(None if endpoint is None else endpoint.id)
        settings = self.settings
        counted = {} if endpoint is None else endpoint.statistics["network"]
        is_told = own is not None and not settings.key
        machine_seen = self._machine(listener, heard, errors, counted, failure, looped if is_told else None)
        peers = endpoint.peers if endpoint is not None else []
        is_busy = self._is_busy or machine.processor_waits() - self._waited > WAITED
        ways = ways_of(self._round, self._pings, links, endpoint.id) if links and endpoint else []
        met = {str(address[0]).partition("%")[0] for peer in peers if (address := peer.address)}
        contacts = tuple(str(address[0]) for address in settings.contacts)
        return Seen(
            machine=machine_seen,
            network_id=settings.network_id,
            sealed=bool(settings.key),
            senders=senders,
            endpoints=endpoints,
            ways=tuple(way for way in ways if not (is_busy and way.target in self._stale)),
            contacts=contacts,
            met=tuple(one for one in contacts if one in met),
            busy=is_busy,
            seconds=round(time.monotonic() - self._started, 2),
        )

    def _machine(
        self,
        listener: Listener,
        heard: Mapping[str, int],
        errors: Mapping[str, int],
        counted: Mapping[str, int],
        failure: Exception | None,
        looped: bool | None,
    ) -> MachineSeen:
        """This machine, with the errors since `errors` were read and what the network layer `counted`."""
        group, settings = listener.group, self.settings
        now = machine.error_counters()
        interfaces = machine.interfaces(heard, {name: count - errors.get(name, count) for name, count in now.items()})
        chosen, reason = self._choice()
        unsent = {cause: n for cause, n in counted.items() if cause.startswith("not sent") and "queue" not in cause}
        return MachineSeen(
            interfaces=interfaces, wanted=settings.one_interface, chosen=chosen, reason=reason,
            is_ipv6=settings.multicast_address.startswith("["), group=group.host, port=group.port,
            failure="" if failure is None else str(failure), port_taken=isinstance(failure, PortInUseError),
            looped=looped, blocking=self._firewall[0], firewall_read=self._firewall[1], unsent=unsent,
            **machine.facts(chosen),
        )  # fmt: skip

    def _choice(self) -> tuple[str | None, str]:
        try:
            family = parse_group(self.settings.multicast_address).family
            choice = choose_interface(self.settings.one_interface, family)
        except (GlueError, OSError):
            return None, ""
        return choice.interface.name, choice.reason


def _own(endpoint: glue.Endpoint) -> dict[str, Any]:
    """The answer that the doctor's own endpoint would give."""
    inspect = endpoint._running().inspect
    return {name: inspect(partial(SECTIONS[name], endpoint)) for name in SECTIONS_ASKED}


def _misses(number: int, pings: int, links: dict[str, Any], doctor: str) -> bool:
    """Whether some pings, but not all, are missing on any way."""
    for way in ways_of(number, pings, links, doctor):
        for came, of in (way.multicast, way.unicast or (0, 0), way.large_multicast, way.large_unicast or (0, 0)):
            if 0 < came < of:
                return True
    return False


def _is_late(links: Any, number: int, pings: int) -> bool:
    """Whether an endpoint was not yet done with the round when it answered."""
    return isinstance(links, dict) and (links.get("round") != number or links.get("sent") != pings)


def _has_begun(links: Any, number: int) -> bool:
    """Whether an endpoint knew of the round when it answered."""
    return isinstance(links, dict) and links.get("round") == number
