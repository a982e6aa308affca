"""The end of connections and sessions: keep-alive, DISCONNECT, wills, expiry, and the end of the door."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from glue.gateway.mqtt import codes, encoder
from glue.gateway.mqtt.codes import V5, ProtocolError
from glue.gateway.mqtt.packets import NEVER, Auth, Disconnect, Publish
from glue.gateway.mqtt.session import Client, Session
from glue.gateway.mqtt.subscribing import Subscribing


class Leaving(Subscribing):
    """Lets clients out, and ends sessions."""

    def _check_alive(self, client: Client, now: float) -> None:
        if client.link not in self.clients or client.is_closing:
            return
        due = client.last_heard + client.timeout
        if due <= now and client.unread_since < now:
            due = now + client.timeout
        if due <= now:
            self.statistics["keep-alive timeouts"] += 1
            self.end(now, client, codes.KEEP_ALIVE_TIMEOUT, f"silent for {client.timeout:g} s")
        else:
            self.at(due, partial(self._check_alive, client), client)

    def end(self, now: float, client: Client, code: int, reason: str, other: str = "") -> None:
        """Close a connection, and tell a client of MQTT 5 why, and which `other` server. The will is published."""
        if client.is_closing:
            return
        who = client.remote.host if client.session is None else client.name
        self.refusals.tell(now, f"{client.name}: connection is closed: {reason}", f"{who}: {reason}")
        properties = {"reason_string": reason, **({"server_reference": other} if other else {})}
        if client.version == V5:
            if client.session is None:
                client.out.append(encoder.connack(V5, code, False, properties))
            else:
                goodbye = encoder.disconnect(code, properties)
                client.out.append(goodbye if len(goodbye) <= client.packet_size else encoder.disconnect(code))
        elif client.session is None and client.version:
            client.out.append(encoder.connack(client.version, code))
        elif client.session is None and code == codes.UNSUPPORTED_VERSION:
            client.out.append(encoder.connack(codes.V311, code))
        client.is_closing, client.reason = True, reason
        self.changed[client] = None

    def _disconnect(self, now: float, client: Client, packet: Disconnect) -> None:
        session = client.session
        assert session is not None
        expiry = packet.properties.get("session_expiry_interval")
        if expiry is not None:
            if expiry and not session.expiry:
                raise ProtocolError(codes.PROTOCOL_ERROR, "a DISCONNECT that lets a session stay which had to end")
            session.expiry = self.limits.session_expiry if expiry == NEVER else min(expiry, self.limits.session_expiry)
        if packet.code == codes.SUCCESS and session.will is not None:
            self.drop_will(session)
        client.is_closing, client.reason = True, "DISCONNECT"
        self.changed[client] = None

    def _auth(self, now: float, client: Client, packet: Auth) -> None:
        raise ProtocolError(codes.PROTOCOL_ERROR, "an AUTH without an authentication method in the CONNECT")

    def lost(self, now: float, client: Client) -> None:
        """Note that a connection has ended, however that came. A second time does nothing."""
        if self.clients.pop(client.link, None) is None:
            return
        self.release(client)
        self.call_off(client)
        client.is_closing = True
        session = client.session
        if session is None or session.client is not client:
            return
        self.tell(f"{client.name} is disconnected: {client.reason or 'the connection broke'}")
        session.client = None
        self.note_session(session, "disconnected")
        self.leave(now, session, now + session.expiry)

    def leave(self, now: float, session: Session, expires_at: float) -> None:
        """Begin the time without a connection: the will becomes due, and the end of the session."""
        if session.will is not None:
            delay = float(session.will.properties.get("will_delay_interval", 0))
            session.will_at = min(session.will_at, now + min(delay, session.expiry))  # earlier if it waited elsewhere
            if session.will_at <= now:
                self._publish_will(now, session)
            else:
                self.at(session.will_at, partial(self._check_will, session), (session, "will"))
        if session.expiry <= 0:
            self.end_session(now, session)
            return
        session.expires_at = expires_at
        if self.store is not None and session.is_kept:
            self.store.note("away", session.client_id, expires_at - now + self.store.wall_clock())
            self.shelve(session)
        self.at(session.expires_at, partial(self._check_session, session), session)
        self.absent[session] = None
        if len(self.absent) > self.limits.sessions:
            oldest = next(iter(self.absent))
            self.statistics["sessions ended for room"] += 1
            full = f"{self.limits.sessions} clients are away"
            self.refusals.tell(now, f"the session of {oldest.client_id} ends: {full}", full)
            self.end_session(now, oldest)

    def _check_will(self, session: Session, now: float) -> None:
        if session.client is None and session.will is not None and session.will_at <= now:
            self._publish_will(now, session)

    def _publish_will(self, now: float, session: Session) -> None:
        will, session.will = session.will, None
        assert will is not None
        self._note_no_will(session)
        properties = {name: value for name, value in will.properties.items() if name != "will_delay_interval"}
        run = Publish(will.topic, (will.payload,), will.qos, will.retain, properties or None)
        if "message_expiry_interval" in properties:
            run.expires = now + properties["message_expiry_interval"]
        self.statistics["wills published"] += 1
        self.publish(now, run, None)

    def drop_will(self, session: Session) -> None:
        """Forget the will of a session, which is not to be published."""
        session.will = None
        self._note_no_will(session)

    def _note_no_will(self, session: Session) -> None:
        if self.store is not None:
            self.store.note("will", session.client_id, None)

    def publish(self, now: float, run: Publish, sender: Client | None, ids: Sequence[int] = ()) -> None:
        """Deliver a run of messages, keep the last one if retained, and pass the run on to the network."""
        self.keep_last(now, run)
        if sender is not None and self.watchers:
            self.note_publish(sender.name, run)
        self.remember(now, run, sender, ids)
        self.route(now, run, sender)
        self.published.append(run)

    def publish_waiting_wills(self, now: float) -> None:
        """Publish the wills that wait, as all sessions end."""
        for session in list(self.sessions.values()):
            if session.will is not None and session.client is None:
                self._publish_will(now, session)

    def _check_session(self, session: Session, now: float) -> None:
        is_current = self.sessions.get(session.client_id) is session
        if is_current and session.client is None and session.expires_at <= now:
            self.statistics["sessions expired"] += 1
            self.end_session(now, session)

    def end_session(self, now: float, session: Session) -> None:
        """Forget a session; a will that waits is published first (MQTT-3.1.3-9)."""
        if session.will is not None and session.client is None and session.will_at != float("inf"):
            self._publish_will(now, session)
        for subscription in list(session.subscriptions.values()):
            self.subscriptions.remove(subscription)
        self.note_event(session, "end")
        self.sessions.pop(session.client_id, None)
        self.absent.pop(session, None)
        self.call_off(session, (session, "will"))
        self.note_session(session, "ended")
        if session.queued:
            self._count_drop(now, f"the session of {session.client_id} ended", session.queued)

    def shut_down(self, now: float, other: str = "") -> None:
        """Close all connections. Clients of MQTT 5 are told the address of the `other` door if there is one."""
        for client in list(self.clients.values()):
            code = codes.USE_ANOTHER_SERVER if other else codes.SERVER_SHUTTING_DOWN
            self.end(now, client, code, "the gateway shuts down", other)
