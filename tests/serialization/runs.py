"""Runs of frames as they arrive."""

from __future__ import annotations

from glue.contract import Header, Inbound
from glue.serialization.fastpath import SerializationFastPath
from tests.serialization.frames import reader, train, written

HEADER: Header = {"fragment": [3, 20, 5000, 8], "transport": ["group", 0, 12, 0, 0, 0, 1, 996]}


BODIES = [b"%020d" % number for number in range(12)]


def arriving(header: Header = HEADER, counter: int = 9_994) -> list[bytes]:
    return written(BODIES, header, counter=counter)


def received(
    datagrams: list[bytes], is_awaited: bool = True, asked: list[Inbound] | None = None, counter: int = 9_994
) -> list[bytes] | None:
    """The bodies of a train that takes the fast path, to a layer that knows the form of its headers."""
    layer = reader()
    layer.receive(0.0, [train(arriving(counter=counter))])

    def awaits(run: Inbound) -> bool:
        if asked is not None:
            asked.append(run)
        return is_awaited

    path = SerializationFastPath(layer)
    path.awaited_by = [lambda run: True, awaits]
    before = layer.statistics["datagrams received"]
    run = path.receive_one(0.0, train(datagrams))
    assert layer.statistics["datagrams received"] - before == (len(datagrams) if run else 0)
    return [*run.bodies] if isinstance(run, Inbound) else None
