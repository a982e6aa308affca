"""The typed topics of a network as AsyncAPI 3.0: valid by its own schema, and nothing of a liar's gets far."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from glue.contract import Delivery
from glue.endpoint.schemas import Schemas
from glue.endpoint.type_news import TypeNews
from glue.gateway.http.client import Client
from glue.gateway.http.tokens import EVERYTHING, Access, Rights, add_token
from glue.gateway.http.typed import Typed, asyncapi_document, components
from glue.schema import PUBLISH, SUBSCRIBE, AnnouncedType, hash_of
from tests.gateway.http.doors import Doors
from tests.support.lan import Lan

SPECIFICATION = Path(__file__).parents[3] / ".venv/node/node_modules/@asyncapi/specs/schemas/3.0.0.json"


@dataclass
class Place:
    room: str
    floor: int = 0


@dataclass
class Temperature:
    celsius: float
    place: Place
    tags: list[str] = field(default_factory=list)


def check(document: dict[str, Any]) -> None:
    """Check a document against the JSON Schema of AsyncAPI, and that each reference leads somewhere."""
    for reference in references(document):
        at: Any = document
        for name in reference.removeprefix("#/").split("/"):
            at = at[name]
    if SPECIFICATION.exists():
        jsonschema = pytest.importorskip("jsonschema")
        jsonschema.Draft7Validator(json.loads(SPECIFICATION.read_text())).validate(document)


def references(part: Any) -> list[str]:
    """All references in a document."""
    if isinstance(part, list):
        return [found for one in part for found in references(one)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
    return own + [found for one in part.values() for found in references(one)]


def typed(pattern: str, label: str = "T#00000000", way: str = PUBLISH, schema: Any = None) -> Typed:
    name, _, hash = label.partition("#")
    return "kitchen", AnnouncedType(way, name, hash, pattern), orjson.dumps({} if schema is None else schema)


def test_the_door_describes_typed_topics_with_their_schemas(door: Doors, lan: Lan, tmp_path: Path) -> None:
    kitchen, hall = lan.start("kitchen"), lan.start("hall")
    kitchen.topic("home/kitchen/temperature", Temperature).publish(Temperature(21.5, Place("kitchen")))
    topic = hall.topic("home/+/temperature", Temperature)
    topic.subscribe(print)
    token = add_token(tmp_path / "tokens", "panel", [], ["garden/#"])
    with door(access=Access(tmp_path / "tokens", local=EVERYTHING)) as gateway:
        url = f"http://127.0.0.1:{gateway.port}"
        with Client(url) as user, Client(url, token) as panel:
            found = user.call("GET", "/asyncapi.json")
            assert panel.call("GET", "/asyncapi.json")["channels"] == {}
    check(found)
    assert found["channels"]["home_temperature"]["address"] == "home/{level2}/temperature"
    key = topic.type.replace("#", "_")
    assert found["channels"]["home_kitchen_temperature"]["messages"][key]["contentType"] == "application/json"
    assert found["operations"]["send_home_kitchen_temperature"]["action"] == "send"
    assert found["operations"]["receive_home_temperature"]["messages"] == [
        {"$ref": f"#/channels/home_temperature/messages/{key}"}
    ]
    schema = found["components"]["schemas"][key]
    assert schema["required"] == ["celsius", "place"]
    assert schema["properties"]["place"]["properties"]["room"] == {"type": "string"}


def test_definitions_within_a_schema_become_components() -> None:
    schema = {
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "all": {"$ref": "#"}}}},
    }
    assert components("Node_1", schema) == {
        "Node_1": {"$ref": "#/components/schemas/Node_1.0_Node"},
        "Node_1.0_Node": {
            "type": "object",
            "properties": {
                "next": {"$ref": "#/components/schemas/Node_1.0_Node"}, "all": {"$ref": "#/components/schemas/Node_1"},
            },
        },
    }  # fmt: skip
    check(asyncapi_document([typed("t", schema=schema)], EVERYTHING))


def test_patterns_that_differ_in_signs_only_are_different_channels() -> None:
    found = asyncapi_document([typed(one) for one in ("a/b", "a_b", "#", "+", "{x}/ü")], EVERYTHING)
    check(found)
    addresses = [(channel["address"], channel.get("x-glue-pattern")) for channel in found["channels"].values()]
    assert [*found["channels"]] == ["all", "all_2", "a_b", "a_b_2", "x"]
    assert addresses == [
        ("{level1}", "#"), ("{level1}", "+"), ("a/b", None), ("a_b", None), (None, "{x}/ü"),
    ]  # fmt: skip


def test_a_schema_that_has_not_its_hash_is_none() -> None:
    settled: list[int] = []
    owner: Any = SimpleNamespace(settled=lambda _, count: settled.append(count))
    schemas = Schemas(TypeNews(Counter()), owner, False)
    good: Any = {"type": "object"}
    hash = hash_of(orjson.dumps(good))
    deep: Any = {}
    for _ in range(300):
        deep = {"items": deep}  # deeper than JSON is written
    for payload in ({"type": "string"}, b"{}", deep, good):
        schemas._deliver(Delivery(f"$glue/schema/{hash}", [payload], None, "a", "0" * 16, 1, 1, 0.0, True, ()))
    assert schemas.find(hash) == orjson.dumps(good)
    assert sum(settled) == 4


def test_a_liar_refers_to_nothing_outside_and_fills_no_memory() -> None:
    deep: Any = {}
    for _ in range(200):
        deep = {"items": deep}
    lies = [{"$ref": "http://evil.example/x"}, {"$ref": "#/$defs/none"}, {"$defs": 7, "properties": [1]}, deep]
    found = asyncapi_document(
        [typed("t", f"T#{place:08x}", SUBSCRIBE, lie) for place, lie in enumerate(lies)], EVERYTHING
    )
    assert "evil" not in json.dumps(found)
    large = [typed("t", f"T#{place:08x}", PUBLISH, {"title": "x" * 60_000}) for place in range(200)]
    assert len(json.dumps(asyncapi_document(large, EVERYTHING))) < 5 << 20
    assert asyncapi_document(large, Rights("x", ("other",))) | {"info": 0} == asyncapi_document([], EVERYTHING) | {
        "info": 0
    }
