"""A stream ends when its client loses the right to read, before the next message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from glue.gateway.http.client import Client
from glue.gateway.http.tokens import Access, Rights, add_token, remove_token
from tests.gateway.http.doors import Doors
from tests.gateway.http.streams import opened_stream
from tests.support.lan import PATIENCE


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


@pytest.mark.parametrize("kind", ["text/event-stream", "application/x-ndjson"])
def test_a_stream_ends_when_its_token_is_removed(door: Doors, tokens: Path, kind: str) -> None:
    token = add_token(tokens, "kitchen", [], ["home/#"])
    other = add_token(tokens, "cellar", ["#"], ["#"])
    access = Access(tokens)
    with door(access=access) as gateway, Client(f"http://127.0.0.1:{gateway.port}", other) as cellar:
        headers = {"accept": kind, "authorization": f"Bearer {token}"}
        with opened_stream(gateway, "/v1/topics/home/%23", headers) as lines:
            cellar.publish("home/x", "first")
            assert "first" in next(texts(lines))
            remove_token(tokens, "kitchen")
            access.check()
            cellar.publish("home/x", "second")
            assert "this token is not known" in next(texts(lines))
            assert list(lines) == [], "the stream has ended, and the second message was not in it"
        with opened_stream(gateway, "/v1/topics/home/%23", {**headers, "authorization": f"Bearer {other}"}) as lines:
            cellar.publish("home/x", "third")
            assert "third" in next(texts(lines)), "the other client reads on"


def texts(lines: Iterator[bytes]) -> Iterator[str]:
    """The lines with a payload or a reason."""
    return (line.decode() for line in lines if b"payload" in line or b"reason" in line)


def test_a_websocket_ends_when_one_of_its_patterns_is_taken_away(door: Doors, tokens: Path) -> None:
    websockets = pytest.importorskip("websockets.sync.client")
    token = add_token(tokens, "kitchen", ["#"], ["home/#", "plant/#"])
    access = Access(tokens)
    with door(access=access) as gateway:
        url = f"ws://127.0.0.1:{gateway.port}/v1/stream?topic=home/x"
        with websockets.connect(url, additional_headers={"authorization": f"Bearer {token}"}) as one:
            one.send(json.dumps({"subscribe": "plant/x"}))
            one.send(json.dumps({"publish": "plant/x", "payload": 1}))
            assert json.loads(one.recv(PATIENCE))["payload"] == 1
            entries = [json.loads(line) for line in tokens.read_text().splitlines()]
            entries[0]["subscribe"] = ["home/#"]
            tokens.write_text(json.dumps(entries[0]) + "\n")
            access.check()
            one.send(json.dumps({"publish": "home/x", "payload": 2}))
            told = json.loads(one.recv(PATIENCE))
            assert (told["event"], "'plant/x'" in told["reason"]) == ("refused", True)
            with pytest.raises(Exception, match="1008"):
                one.recv(PATIENCE)


def test_rules_that_stay_as_they_are_cost_a_stream_nothing() -> None:
    access = Access(local=Rights("local"))
    before = access.revision
    access.check()
    assert access.revision == before
