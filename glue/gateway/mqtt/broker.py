"""The broker of one door, without sockets: bytes of clients and the time go in, bytes for clients come out.

The shell calls a method for each thing that happens, then writes the output of the clients in `changed`. Messages of
clients go to `published`, for the rest of the network; `deliver` takes messages from the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any

from glue.gateway.mqtt import codes, encoder
from glue.gateway.mqtt.access import Access
from glue.gateway.mqtt.codes import V5, ProtocolError
from glue.gateway.mqtt.identity import WRITE
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.moving import Moving
from glue.gateway.mqtt.packets import (
    Acknowledgement,
    Auth,
    Connect,
    Disconnect,
    Packet,
    Ping,
    Publish,
    Subscribe,
    Unsubscribe,
)
from glue.gateway.mqtt.session import Client


class Broker(Moving):
    """Sessions, subscriptions and retained messages of one door.

    * `changed`: clients with output to write, clients to be closed, and clients that may be read again.
    * `asked`: clients to be identified by the shell, which then calls `admit`.
    * `published`: messages of clients and wills, for the rest of the network.
    * `log`: called with a level of `logging` and a line for each refusal, drop and change.
    * `statistics`: counters by cause.
    """

    def __init__(self, access: Access, random: Random, limits: Limits | None = None) -> None:
        """`random` draws client ids for clients that bring none."""
        super().__init__(access, random, limits)
        self._handlers: dict[type[Packet], Callable[[float, Client, Any], None]] = {
            Publish: self._publish,
            Acknowledgement: self._acknowledgement,
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Ping: self._ping,
            Disconnect: self._disconnect,
            Auth: self._auth,
            Connect: self._connect,
        }

    def receive(self, now: float, client: Client, data: bytes) -> None:
        """Take bytes of a client."""
        client.last_heard = now
        self.handle(now, client, client.decoder.feed(data))

    def handle(self, now: float, client: Client, packets: Iterable[Packet]) -> None:
        """Handle packets of a client; those behind a CONNECT wait until its identity is known."""
        handlers = self._handlers
        try:
            for packet in packets:
                if client.is_closing:
                    return
                if client.waits is None:
                    handlers[packet.__class__](now, client, packet)
                else:
                    client.waits.append(packet)
        except ProtocolError as error:
            self.statistics[f"protocol errors, {error.code:#04x}"] += 1
            self.end(now, client, error.code, str(error))

    def recheck(self, now: float) -> None:
        """After a change of rights: end the connections and subscriptions that are no longer allowed."""
        for client in list(self.clients.values()):
            session, identity = client.session, client.identity
            if session is None or identity is None:
                continue
            will = session.will
            if will is not None and not self.may(client, WRITE, will.topic):
                self.refuse(now, client, WRITE, will.topic)
                self.drop_will(session)
            if not self.access.knows(identity):
                self.end(now, client, codes.NOT_AUTHORIZED, f"user {identity.user} may not connect any more")
                continue
            self.check_rights(now, client)

    def deliver(self, now: float, run: Publish) -> None:
        """Deliver a run that another endpoint published."""
        self.keep_last(now, run)
        self.remember(now, run, None)
        self.route(now, run, None)

    # ------------------------------------------------------------------------------------ publications

    def _publish(self, now: float, client: Client, run: Publish) -> None:
        session = client.session
        assert session is not None
        if run.properties is not None:
            self._read_properties(now, client, run)
        client.received += run.count
        self.statistics["messages received"] += run.count
        code, reason = codes.SUCCESS, ""
        if not self.may(client, WRITE, run.topic):
            code, reason = codes.NOT_AUTHORIZED, self.refuse(now, client, WRITE, run.topic, run.count)
        if run.qos == 0:
            if code == codes.SUCCESS:
                self._accept(now, client, run)
            return
        self.changed[client] = None
        if run.qos == 1:
            if code == codes.SUCCESS:
                before = self.stored_to
                self._accept(now, client, run)
                is_stored = self.stored_to != before
                self.promise(client, encoder.acknowledgements(codes.PUBACK, run.ids), is_stored)
            else:
                answers = [self._refusal_of(client, codes.PUBACK, one, code, reason) for one in run.ids]
                self.promise(client, b"".join(answers), False)
            return
        self._publish_once(now, client, run, code, reason)

    def _refusal_of(self, client: Client, kind: int, number: int, code: int, reason: str) -> bytes:
        """The answer to a message that is refused."""
        return self.explained(client, reason, partial(encoder.acknowledgement, client.version, kind, number, code))

    def _publish_once(self, now: float, client: Client, run: Publish, code: int, reason: str) -> None:
        """Take messages of QoS 2, except messages taken before, with ids that wait for a PUBREL."""
        session = client.session
        assert session is not None
        places: dict[int, int] = {}
        for place, number in enumerate(run.ids):
            if number not in session.received:
                places.setdefault(number, place)  # a client may send a message twice at once
        new = list(places.values())
        if code == codes.SUCCESS:
            if len(session.received) + len(new) > self.limits.receive_maximum:
                raise ProtocolError(
                    codes.RECEIVE_MAXIMUM_EXCEEDED,
                    f"more than {self.limits.receive_maximum} messages of QoS 2 without a PUBREL",
                )
            before = self.stored_to
            session.received.update(run.ids)
            if len(new) == run.count:
                self._accept(now, client, run, run.ids)
            else:
                for place in new:
                    self._accept(now, client, run.part(place, place + 1), run.ids[place : place + 1])
            is_stored = session.is_kept or self.stored_to != before
            self.promise(client, encoder.acknowledgements(codes.PUBREC, run.ids), is_stored)
            return
        for number in run.ids:  # 3.1.1 knows no refusal: the message is acknowledged, and dropped
            refusal = code if client.version == V5 else codes.SUCCESS
            self.promise(client, self._refusal_of(client, codes.PUBREC, number, refusal, reason), False)

    def _read_properties(self, now: float, client: Client, run: Publish) -> None:
        """Look up or set a topic alias, and begin the lifetime."""
        properties = run.properties or {}
        alias = properties.pop("topic_alias", None)
        if alias is not None:
            if alias > self.limits.topic_aliases:
                raise ProtocolError(
                    codes.TOPIC_ALIAS_INVALID, f"topic alias {alias}: up to {self.limits.topic_aliases}"
                )
            if run.topic:
                client.aliases[alias] = run.topic
            else:
                topic = client.aliases.get(alias)
                if topic is None:
                    raise ProtocolError(codes.PROTOCOL_ERROR, f"topic alias {alias} stands for no topic")
                run.topic = topic
            if not properties:
                run.properties = None
        if "message_expiry_interval" in properties:
            run.expires = now + properties["message_expiry_interval"]

    def _accept(self, now: float, client: Client, run: Publish, ids: Sequence[int] = ()) -> None:
        """Keep, deliver and pass on what a client may publish; `ids` are packet ids of QoS 2."""
        if not self.is_expired(now, run):
            self.publish(now, run, client, ids)

    # ---------------------------------------------------------------------------------- acknowledgements

    def _acknowledgement(self, now: float, client: Client, packet: Acknowledgement) -> None:
        session = client.session
        assert session is not None
        kind = packet.kind
        if kind == codes.PUBACK:
            unknown = session.acknowledge(packet.ids)
            self.note_acknowledged(session, packet.ids)
            if unknown:
                self.statistics["acknowledgements of unknown messages"] += unknown
            self.fill(now, session)
            return
        self.changed[client] = None
        (number,) = packet.ids
        if kind == codes.PUBREC:
            known = session.inflight.pop(number, None) is not None or number in session.released
            if packet.code >= 0x80:
                session.released.pop(number, None)
                self.note_event(session, "ack", [[number, 1]])
                self.note_event(session, "comp", number)
                self.fill(now, session)
                return
            if known:
                session.released[number] = None
            is_stored = known and self.note_event(session, "rec", number)
            code = codes.SUCCESS if known else codes.PACKET_ID_NOT_FOUND
            self.promise(client, encoder.acknowledgement(client.version, codes.PUBREL, number, code), is_stored)
        elif kind == codes.PUBREL:
            known = number in session.received
            session.received.discard(number)
            is_stored = known and self.note_event(session, "rel", number)
            code = codes.SUCCESS if known else codes.PACKET_ID_NOT_FOUND
            self.promise(client, encoder.acknowledgement(client.version, codes.PUBCOMP, number, code), is_stored)
        else:
            session.released.pop(number, None)
            self.note_event(session, "comp", number)
            self.fill(now, session)

    def _ping(self, now: float, client: Client, packet: Ping) -> None:
        client.out.append(encoder.PINGRESP)
        self.changed[client] = None
