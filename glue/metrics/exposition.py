"""The metrics of endpoints as text, in Prometheus's format 0.0.4.

Metrics have the prefix `glue_`. Each sample has the label `endpoint`, the endpoint's name. What has an obvious name has
a metric of its own; all counters of the layers are in `glue_events_total`, with the labels `layer` and `event`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from glue.endpoint.accounting import Accounting
from glue.endpoint.message import Peer

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


class Measured(Protocol):
    """The part of an endpoint, of either kind, that metrics read."""

    @property
    def name(self) -> str:
        """The endpoint's name."""

    @property
    def id(self) -> str:
        """The endpoint's id."""

    @property
    def incarnation(self) -> int:
        """The number of this life."""

    @property
    def peers(self) -> list[Peer]:
        """The endpoints now known."""

    @property
    def statistics(self) -> Mapping[str, Mapping[str, int]]:
        """All counters by layer."""

    @property
    def accounting(self) -> Accounting:
        """The outcomes of all messages."""


def exposition(endpoint: Measured, *others: Measured) -> str:
    """Return the metrics of endpoints, started or not, as a text that ends with a line feed.

    Of several endpoints with one name, on several networks, the label of the second is NAME#2, as two samples must not
    have the same labels.
    """
    endpoints = _named((endpoint, *others))
    lines: list[str] = []
    for name, kind, meaning, samples in FAMILIES:
        found = [
            f"{name}{_labels({'endpoint': label, **labels})} {_number(value)}"
            for label, one in endpoints.items()
            for labels, value in samples(one)
        ]
        if found:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *found]
    return "\n".join(lines) + "\n"


def _named(endpoints: Iterable[Measured]) -> dict[str, Measured]:
    """Endpoints by names of which none is there twice."""
    found: dict[str, Measured] = {}
    for one in endpoints:
        name, number = one.name, 1
        while name in found:
            number += 1
            name = f"{one.name}#{number}"
        found[name] = one
    return found


def _info(endpoint: Measured) -> Iterator[Sample]:
    from glue import __version__

    yield {"id": endpoint.id, "incarnation": str(endpoint.incarnation), "version": __version__}, 1


def _peers(endpoint: Measured) -> Iterator[Sample]:
    yield {}, len(endpoint.peers)


def _sent(endpoint: Measured) -> Iterator[Sample]:
    for outcome, count in sorted(endpoint.accounting.sent.items()):
        yield {"outcome": outcome}, count


def _owed(endpoint: Measured) -> Iterator[Sample]:
    yield {}, endpoint.accounting.owed


def _sending(endpoint: Measured) -> Iterator[Sample]:
    yield {}, endpoint.accounting.sending


def _received(endpoint: Measured) -> Iterator[Sample]:
    for outcome, count in sorted(endpoint.accounting.received.items()):
        yield {"outcome": outcome}, count


def _waiting(endpoint: Measured) -> Iterator[Sample]:
    yield {}, endpoint.accounting.waiting


def _missed(endpoint: Measured) -> Iterator[Sample]:
    for cause, count in sorted(endpoint.accounting.missed.items()):
        yield {"cause": cause}, count


def _events(endpoint: Measured) -> Iterator[Sample]:
    for layer, counters in endpoint.statistics.items():
        for event, count in sorted(counters.items()):
            yield {"layer": layer, "event": event}, count


def _network(counter: str) -> Callable[[Measured], Iterable[Sample]]:
    def samples(endpoint: Measured) -> Iterable[Sample]:
        counters = endpoint.statistics.get("network", {})
        for direction in ("sent", "received"):
            yield {"direction": direction}, counters.get(f"{counter} {direction}", 0)

    return samples


FAMILIES: list[tuple[str, str, str, Callable[[Measured], Iterable[Sample]]]] = [
    ("glue_endpoint_info", "gauge", "Id, incarnation and version of the endpoint; always 1.", _info),
    ("glue_peers", "gauge", "Other endpoints that are known now.", _peers),
    ("glue_network_bytes_total", "counter", "Bytes of datagrams.", _network("bytes")),
    ("glue_network_datagrams_total", "counter", "Datagrams.", _network("datagrams")),
    ("glue_messages_owed_total", "counter", "Messages published, once for each subscribed peer.", _owed),
    ("glue_messages_sent_total", "counter", "What became of the messages published, by outcome.", _sent),
    ("glue_messages_sending", "gauge", "Messages published that have no outcome yet.", _sending),
    ("glue_messages_received_total", "counter", "What became of the messages received, by outcome.", _received),
    ("glue_messages_waiting", "gauge", "Messages received that wait for a handler or a reader.", _waiting),
    ("glue_messages_missed_total", "counter", "Messages that subscriptions did not get, by cause.", _missed),
    ("glue_events_total", "counter", "All counters of the layers.", _events),
]


def _labels(labels: Labels) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inner}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
