"""What is remembered of headers is bounded, however many forms there are, and datagrams stay the same."""

from __future__ import annotations

import pytest

from glue.contract import Inbound, Outbound, Train
from glue.contract.pieces import Pieces
from glue.serialization import Serialization
from glue.serialization.fastpath import SerializationFastPath
from glue.serialization.forms import Forms
from tests.support.weight import weight

OWN, OTHER = "00000000000000aa", "00000000000000bb"


def layer(endpoint_id: str) -> Serialization:
    made = Serialization(endpoint_id=endpoint_id, incarnation=1, network_id=0)
    assert made.fit(1472) > 1000
    return made


def frames(number: int) -> Outbound:
    """A run whose header has a form of its own."""
    name = "".join(chr(ord("a") + int(digit)) for digit in f"{number:03}")
    return Outbound((), Pieces([bytes(3000)], 1000, 3), {"topics": [name, number % 10, 0]})


@pytest.mark.parametrize("way", ["send", "send_one"])
def test_what_is_remembered_of_headers_stays_bounded_and_what_is_read_stays_true(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Forms, "LIMIT", 20)
    sender, receiver = layer(OWN), layer(OTHER)
    path = SerializationFastPath(sender)
    weights = []
    for number in range(240):
        item = frames(number)
        train = path.send_one(0.0, item) if way == "send_one" else sender.send(0.0, [item])[0]
        assert train is not None
        up, _ = receiver.receive(0.0, [Train(("127.0.0.1", 1), bytes(train.data), train.segment)])
        (run,) = up
        assert isinstance(run, Inbound)
        assert run.header["topics"] == frames(number).header["topics"]
        assert [len(body) for body in run.bodies] == [1000] * 3
        weights.append((weight((sender, path)), weight(receiver)))
    for mine in zip(*weights, strict=True):
        assert max(mine[200:]) <= max(mine[:60])
