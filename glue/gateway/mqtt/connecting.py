"""The beginning of connections and sessions: CONNECT, identity, takeover, and what goes on from before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from functools import partial
from typing import Any

from glue.gateway.mqtt import codes, encoder
from glue.gateway.mqtt.codes import V5, V31
from glue.gateway.mqtt.identity import READ, WRITE, Identity, Refusal, Remote
from glue.gateway.mqtt.leaving import Leaving
from glue.gateway.mqtt.packets import Connect, Will
from glue.gateway.mqtt.session import Client, Session
from glue.gateway.mqtt.stored import will_value
from glue.gateway.mqtt.subscribing import HIDDEN

OLD_ID_LENGTH = 23
"""Characters of a client id in MQTT 3.1, which refuses longer ones."""


class Connecting(Leaving):
    """Lets clients in."""

    def open(self, now: float, link: Hashable, remote: Remote) -> Client:
        """Take a new connection; `link` names it. It is closed at once if there are too many."""
        client = Client(link, remote, now, self.limits.packet_size)
        if not self.has_room(now, remote):
            client.is_closing = True
            self.changed[client] = None
            return client
        self.clients[link] = client
        self.statistics["connections"] += 1
        self.at(now + self.limits.connect_timeout, partial(self._check_connect, client), client)
        return client

    def has_room(self, now: float, remote: Remote) -> bool:
        """Whether there may be one more connection; a refusal is counted and told."""
        most = self.limits.clients
        if len(self.clients) + self.handshakes < most:
            return True
        self.statistics["connections refused"] += 1
        full = f"refused, {most} clients are connected"
        self.refusals.tell(now, f"{remote.address}: {full}", f"{remote.host}: {full}")
        return False

    def _check_connect(self, client: Client, now: float) -> None:
        if client.session is None and client.link in self.clients and not client.is_closing:
            self.statistics["no CONNECT in time"] += 1
            self.end(now, client, codes.KEEP_ALIVE_TIMEOUT, "no CONNECT in time")

    def _connect(self, now: float, client: Client, packet: Connect) -> None:
        client.connect, client.version = packet, packet.version
        if self.has_store_failed or (self.store is not None and self.store.failure):
            self._reject(now, client, Refusal(codes.SERVER_UNAVAILABLE, "the storage of the gateway failed"))
            return
        if "authentication_method" in packet.properties:
            method = packet.properties["authentication_method"]
            self._reject(now, client, Refusal(codes.BAD_AUTHENTICATION_METHOD, f"no authentication method {method!r}"))
            return
        if packet.version == V31 and not 1 <= len(packet.client_id) <= OLD_ID_LENGTH:
            self._reject(
                now, client, Refusal(codes.CLIENT_ID_NOT_VALID, "a client id of MQTT 3.1 has 1 to 23 characters")
            )
            return
        if not packet.client_id and not packet.clean and packet.version != V5:
            self._reject(now, client, Refusal(codes.CLIENT_ID_NOT_VALID, "a session that stays needs a client id"))
            return
        answer = self.access.authenticate(packet, client.remote)
        if answer is None:
            client.waits = []
            self.asked.append(client)
            self.changed[client] = None  # nothing more is read of it meanwhile
        else:
            self._admit(now, client, answer)

    def admit(self, now: float, client: Client, answer: Identity | Refusal) -> None:
        """Take what the shell found out about a client in `asked`, and go on with what it sent meanwhile."""
        waiting, client.waits = client.waits or [], None
        if client.link in self.clients and not client.is_closing:
            self._admit(now, client, answer)
            self.handle(now, client, waiting)

    def handle(self, now: float, client: Client, packets: Any) -> None:
        """Handle packets of a client."""
        raise NotImplementedError

    def _reject(self, now: float, client: Client, refusal: Refusal) -> None:
        self.statistics[f"connects refused, {refusal.code:#04x}"] += 1
        assert client.connect is not None
        name = client.connect.client_id
        what = f"client {name!r} is refused: {refusal.reason}"
        self.refusals.tell(now, f"{client.remote.address}: {what}", f"{client.remote.host}: {what}")
        properties = {"reason_string": refusal.reason}
        answer = encoder.connack(client.version, refusal.code, False, properties)
        if len(answer) > client.connect.properties.get("maximum_packet_size", len(answer)):
            answer = encoder.connack(client.version, refusal.code)
        client.out.append(answer)
        client.is_closing, client.reason = True, refusal.reason
        self.changed[client] = None

    def _admit(self, now: float, client: Client, answer: Identity | Refusal) -> None:
        packet = client.connect
        assert packet is not None
        if isinstance(answer, Refusal):
            self._reject(now, client, answer)
            return
        will = packet.will
        if will is not None and (rule := self._denial_of(will, packet.client_id, answer)):
            reason = f"the will may not be published to {will.topic!r:.200}: {rule}"
            self._reject(now, client, Refusal(codes.NOT_AUTHORIZED, reason))
            return
        client.identity = answer
        self.enter(now, client, packet)

    def enter(self, now: float, client: Client, packet: Connect) -> None:
        """Let a client in that may connect, once its session is here."""
        is_sought = bool(packet.client_id) and not packet.clean and packet.client_id not in self.sessions
        if is_sought and self.may_be_elsewhere():
            client.waits = []
            self.sought.append(client)
            self.changed[client] = None
            return
        self._welcome(now, client, packet)

    def settle(self, now: float, client: Client, value: Any) -> None:
        """Go on with a client in `sought`; `value` is its session as `taken` of another door gave it, or None."""
        waiting, client.waits = client.waits or [], None
        packet = client.connect
        assert packet is not None
        if isinstance(value, dict) and packet.client_id not in self.sessions:
            session = self.take_in(now, value)
            if session is not None:
                session.arrivals = Counter()
                if client.link not in self.clients or client.is_closing:  # it has gone away meanwhile
                    self.leave(now, session, now + session.expiry)
        if client.link in self.clients and not client.is_closing:
            if isinstance(value, str):
                self._reject(now, client, Refusal(codes.USE_ANOTHER_SERVER, f"the session is at another door: {value}"))
                return
            self._welcome(now, client, packet)
            self.handle(now, client, waiting)

    def take_in(self, now: float, value: Any) -> Session | None:
        """Take over a session of another door, and return it. Its client is neither connected nor away yet.

        A malformed one is counted and left out.
        """
        raise NotImplementedError

    def _welcome(self, now: float, client: Client, packet: Connect, client_id: str = "") -> None:
        client_id = client_id or packet.client_id or self._new_id()
        will = packet.will
        session, is_present = self._session(now, client_id, packet)
        session.client, client.session = client, session
        self.highest_epoch += 1
        session.epoch = self.highest_epoch
        self.absent.pop(session, None)
        self._agree(client, session, packet)
        if self.store is not None:
            self._store_session(now, session, will)
        if is_present:
            self._withdraw(now, client, session)
        session.will, session.will_at = will, float("inf")
        self.tell(f"{client.remote.address}: client {client_id!r} connects with MQTT {_NAMES[packet.version]}")
        client.out.append(self._connack(client, session, packet, is_present))
        self.changed[client] = None
        if client.timeout != float("inf"):
            self.at(now + client.timeout, partial(self._check_alive, client), client)
        self._resume(now, client, session)
        self.note_session(session, "connected")

    def _store_session(self, now: float, session: Session, will: Will | None) -> None:
        """Store that a session has a connection, and its will."""
        assert self.store is not None
        is_new = not session.is_kept
        session.is_kept = session.is_kept or session.expiry > 0
        if session.is_kept:
            self.store.note("open", session.client_id, session.expiry, session.epoch)
            if is_new:
                self.store.note("next", session.client_id, self.store.end)
            self.unshelve(now, session)
        if will is not None or session.will is not None:
            self.store.note("will", session.client_id, will_value(will))

    def _withdraw(self, now: float, client: Client, session: Session) -> None:
        """Leave out what the client of an earlier connection got, and this one may not read any more."""
        self.check_rights(now, client)
        denied = [
            number for number, (parcel, _) in session.inflight.items() if not self.may(client, READ, parcel.run.topic)
        ]
        if denied:
            session.acknowledge(denied)
            self.note_acknowledged(session, denied)

    def _denial_of(self, will: Will, client_id: str, identity: Identity) -> str:
        """The rule by which a will may not be published, "" if it may."""
        if will.topic.startswith(HIDDEN[WRITE]):
            return f"no client may {WRITE} topics below {HIDDEN[WRITE]}"
        if self.access.authorize(identity, client_id, WRITE, will.topic):
            return ""
        return self.access.refused_by(identity, client_id, WRITE, will.topic)

    def _new_id(self) -> str:
        return f"glue-{self._random.getrandbits(64):016x}"

    def _session(self, now: float, client_id: str, packet: Connect) -> tuple[Session, bool]:
        """The session of a client id, after a takeover; and whether it was there."""
        session = self.sessions.get(client_id)
        if session is not None and session.client is not None:
            self._take_over(now, session)
            session = self.sessions.get(client_id)
        if session is not None and packet.clean:
            self.end_session(now, session)
            session = None
        if session is not None:
            return session, True
        session = Session(client_id, self.limits.queue_messages, self.limits.queue_bytes)
        session.is_fresh = packet.clean
        self.sessions[client_id] = session
        return session, False

    def _take_over(self, now: float, session: Session) -> None:
        """Close the connection of a client id that connects again (MQTT-3.1.4-2)."""
        former = session.client
        assert former is not None
        self.statistics["connections taken over"] += 1
        self.end(now, former, codes.SESSION_TAKEN_OVER, "the client id connects again")
        self.lost(now, former)

    def _agree(self, client: Client, session: Session, packet: Connect) -> None:
        """Set what the client and the broker agree on."""
        properties, limits = packet.properties, self.limits
        session.expiry = packet.expiry(limits.session_expiry)
        if packet.version == V5:
            client.packet_size = min(properties.get("maximum_packet_size", client.packet_size), client.packet_size)
            client.alias_maximum = min(properties.get("topic_alias_maximum", 0), limits.topic_aliases)
        client.inflight = min(properties.get("receive_maximum", 65_535), limits.inflight)
        keep_alive = packet.keep_alive
        if packet.version == V5:
            keep_alive = min(keep_alive, limits.keep_alive)
        client.timeout = keep_alive * 1.5 if keep_alive else float("inf")

    def _connack(self, client: Client, session: Session, packet: Connect, is_present: bool) -> bytes:
        limits = self.limits
        properties: dict[str, Any] = {
            "receive_maximum": limits.receive_maximum,
            "topic_alias_maximum": limits.topic_aliases,
        }
        if limits.packet_size < codes.LARGEST_PACKET:
            properties["maximum_packet_size"] = limits.packet_size
        if not packet.client_id:
            properties["assigned_client_identifier"] = session.client_id
        if packet.keep_alive > limits.keep_alive:
            properties["server_keep_alive"] = limits.keep_alive
        if session.expiry != float(packet.properties.get("session_expiry_interval", 0)):
            properties["session_expiry_interval"] = int(session.expiry)
        if packet.properties.get("request_response_information"):
            properties["response_information"] = f"replies/{session.client_id}"
        return encoder.connack(client.version, codes.SUCCESS, is_present, properties)

    def _resume(self, now: float, client: Client, session: Session) -> None:
        """Send again what is under way (MQTT-4.4.0-1), then what waits; if the session is kept, after a sync."""
        if self.store is None or not session.is_kept:
            self._send_again(client, session, now)
            return
        if session.read_at is None:  # new messages come behind these
            session.read_at = self.store.end
        client.is_resuming = True
        self.store.then(partial(self._send_again, client, session))

    def _send_again(self, client: Client, session: Session, now: float) -> None:
        if session.client is not client or client.is_closing:
            return
        client.is_resuming = False
        self.changed[client] = None
        for number in session.released:
            client.out.append(encoder.acknowledgement(client.version, codes.PUBREL, number))
        for number, parcel in session.again():
            self._count_sent(now, client, 0, client.send(parcel, (number,), now, dup=True))
        self.fill(now, session)


_NAMES = {V31: "3.1", codes.V311: "3.1.1", V5: "5"}
