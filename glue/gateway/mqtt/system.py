"""The `$SYS` topics: what the broker counts, published to its own clients under the names that mosquitto uses."""

from __future__ import annotations

from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.packets import Publish


class SystemTopics:
    """Publishes the counters of a broker at an interval, as retained messages."""

    def __init__(self, broker: Broker, interval: float, version: str) -> None:
        """`interval` is in seconds; 0 publishes nothing."""
        self._version = version
        self._broker = broker
        self._interval = interval
        self._since = 0.0
        self._last: dict[str, bytes] = {}
        self._most = 0

    def begin(self, now: float) -> None:
        """Publish for the first time, and from now on."""
        self._since = now
        if self._interval > 0:
            self._publish(now)

    def _publish(self, now: float) -> None:
        broker = self._broker
        for topic, value in self.values(now).items():
            payload = str(value).encode()
            if self._last.get(topic) != payload:
                self._last[topic] = payload
                run = Publish(topic, (payload,), 0, True)
                broker.retain(run)
                broker.route(now, run, None)
        broker.at(now + self._interval, self._publish)

    def values(self, now: float) -> dict[str, object]:
        """The topics and their values."""
        broker, count = self._broker, self._broker.statistics
        connected = sum(client.session is not None for client in broker.clients.values())
        self._most = max(self._most, connected)
        waiting = sum(session.queued for session in broker.sessions.values())
        named = {
            "version": f"glue {self._version}",
            "uptime": f"{now - self._since:.0f} seconds",
            "clients/connected": connected,
            "clients/disconnected": len(broker.absent),
            "clients/total": len(broker.sessions),
            "clients/maximum": self._most,
            "clients/expired": count["sessions expired"],
            "messages/received": count["messages received"],
            "messages/sent": count["messages sent"],
            "publish/messages/received": count["messages received"],
            "publish/messages/sent": count["messages sent"],
            "publish/messages/dropped": count["messages dropped"],
            "bytes/received": count["bytes received"],
            "bytes/sent": count["bytes sent"],
            "store/messages/count": waiting + len(broker.retained),
            "retained messages/count": len(broker.retained),
            "subscriptions/count": broker.subscriptions.count,
            "shared_subscriptions/count": broker.subscriptions.shared_count,
        }
        return {f"$SYS/broker/{name}": value for name, value in named.items()}
