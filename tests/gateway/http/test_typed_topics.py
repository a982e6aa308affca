"""What an HTTP door tells of typed topics, and to whom: by the tokens of its file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.errors import ConfigurationError
from glue.gateway.http import typed
from glue.gateway.http.tokens import EVERYTHING, Access, Rights, add_token
from glue.gateway.http.typed import Typed, TypedTopics, asyncapi_document, components, content_type, referring
from glue.schema import PUBLISH, SUBSCRIBE, AnnouncedType
from tests.gateway.http.asked import called


def told(pattern: str, name: str = "T", way: str = PUBLISH, hash: str = "0" * 8) -> AnnouncedType:
    return AnnouncedType(way, name, hash, pattern)


class Network:
    """An endpoint with what others announce, and the schemas that have come."""

    name = "door"

    def __init__(self) -> None:
        self.ordered: list[Any] = []
        self.waited: list[tuple[bool, float]] = []
        self.known: dict[str, bytes] = {}
        self.coming: dict[str, bytes] = {}
        directory = [("1", told("a", hash="1" * 8)), ("2", told("b", hash="2" * 8))]
        types = SimpleNamespace(directory=directory)
        self._core = SimpleNamespace(types=types, requests=SimpleNamespace(name_of="name of {}".format))
        self._owner = "owner"
        self._types: Any = None

    def _running(self) -> Any:
        async def wait_until(holds: Any, seconds: float) -> None:
            before = holds()
            self.known |= self.coming
            self.waited.append((before, seconds))
            assert holds() == bool(self.coming)

        return SimpleNamespace(order=self.ordered.append, wait_until=wait_until)


def test_announced_types_come_with_their_schemas_once_those_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    network: Any = Network()
    made: list[Any] = []

    def schemas(*given: Any) -> Any:
        made.append(given)
        return SimpleNamespace(find=network.known.get)

    monkeypatch.setattr(typed, "Schemas", schemas)
    topics = TypedTopics(network)
    assert (made, network.ordered) == ([], [])
    first, second = network._core.types.directory
    assert asyncio.run(topics.get()) == [("name of 1", first[1], None), ("name of 2", second[1], None)]
    assert made == [(network._core.types, "owner", True)]
    (subscribing,) = network.ordered
    assert subscribing.patterns == ("$glue/schema/+",)
    network.coming = {"1" * 8: b"{}", "2" * 8: b"[]"}
    found = asyncio.run(topics.get())
    assert [schema for *_, schema in found] == [b"{}", b"[]"]
    assert network.waited == [(False, 0.5)] * 2
    asyncio.run(topics.get())
    assert len(network.waited) == 2, "all are known"
    assert (len(made), len(network.ordered)) == (1, 1)
    held: list[bool] = []
    network._running = lambda: SimpleNamespace(wait_until=wait_for_one)

    async def wait_for_one(holds: Any, seconds: float) -> None:
        network.known |= {"1" * 8: b"{}"}
        held.append(holds())

    network.known.clear()
    assert [schema for *_, schema in asyncio.run(topics.get())] == [b"{}", None]
    assert held == [False], "it waits for both"
    monkeypatch.setattr(typed, "TOPICS", 1)
    assert len(asyncio.run(topics.get())) == 1
    own = told("own")
    network._types = SimpleNamespace(is_of=lambda core: core is network._core, announced=[(own, b"1")])
    assert asyncio.run(topics.get())[1:] == [("door", own, b"1")]
    network._types.is_of = lambda core: False
    assert len(asyncio.run(topics.get())) == 1


def test_a_client_sees_the_types_it_may_use_in_one_order() -> None:
    everything: list[Typed] = [
        ("kitchen", told("b/x"), None), ("hall", told("b/x"), None), ("kitchen", told("b/x", way=SUBSCRIBE), None),
        ("kitchen", told("a", "U"), None), ("kitchen", told("a", "T"), None), ("kitchen", told("c"), None),
    ]  # fmt: skip
    found = asyncapi_document(list(everything), EVERYTHING)
    assert found == asyncapi_document(everything[::-1], EVERYTHING)
    assert [*found["channels"]] == ["a", "b_x", "c"]
    assert [*found["channels"]["a"]["messages"]] == ["T_00000000", "U_00000000"]
    assert found["channels"]["b_x"]["x-glue-endpoints"] == ["hall", "kitchen"]
    assert sorted(found["operations"]) == ["receive_b_x", "send_a", "send_b_x", "send_c"]
    assert found["operations"]["receive_b_x"] == {
        "action": "receive", "channel": {"$ref": "#/channels/b_x"},
        "messages": [{"$ref": "#/channels/b_x/messages/T_00000000"}],
    }  # fmt: skip
    for rights, channels in (
        (Rights("x", ("a",)), ["a"]), (Rights("x", (), ("b/#",)), ["b_x"]), (Rights("x", ("c",), ("a",)), ["a", "c"]),
        (Rights("x"), []),
    ):  # fmt: skip
        assert [*asyncapi_document(list(everything), rights)["channels"]] == channels


def test_a_schema_s_parts_have_names_of_their_own() -> None:
    long = "N" * 90
    schema = {
        "$defs": {"A b": {"$ref": "#/definitions/C"}, long: {}}, "definitions": {"C": {"$ref": "#/$defs/A b"}},
        "items": [{"$ref": f"#/$defs/{long}"}, 1, "#/$defs/C"], "$ref": 5,
    }  # fmt: skip
    assert components("k", schema) == {
        "k": {"items": [{"$ref": f"#/components/schemas/k.1_{'N' * 80}"}, 1, "#/$defs/C"], "$ref": 5},
        "k.0_A_b": {"$ref": "#/components/schemas/k.2_C"}, f"k.1_{'N' * 80}": {},
        "k.2_C": {"$ref": "#/components/schemas/k.0_A_b"},
    }  # fmt: skip
    assert referring({"a": {"$ref": "#"}, "b": [True, None]}, "k", {}) == {
        "a": {"$ref": "#/components/schemas/k"}, "b": [True, None],
    }  # fmt: skip
    kinds: list[Any] = [
        {},
        {"properties": 5},
        {"properties": {"a": 5, "b": {"type": "x"}}},
        {"title": "numpy.ndarray", "x": 1},
    ]
    assert {content_type(one) for one in kinds} == {"application/json"}
    assert content_type({"properties": {"a": 5, "b": {"number": 2}}}) == "application/x-protobuf"


def test_the_page_of_types_is_for_those_who_ask() -> None:
    from glue.gateway.http import overview

    async def get() -> Any:
        return [("kitchen", told("a"), None)]

    made: Any = SimpleNamespace(typed=SimpleNamespace(get=get), describe=lambda: {"openapi": "3.1.0"})
    status, found = called(overview.asyncapi, made, None, Rights("x", ("a",)))
    assert (status, found["asyncapi"], [*found["channels"]]) == (200, "3.0.0", ["a"])
    assert called(overview.openapi, made, None) == (200, {"openapi": "3.1.0"})


def test_tokens_that_did_not_change_count_as_no_change_and_a_wrong_file_leaves_what_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    token = add_token(path, "kitchen", ["a"], ["b"])
    certificate = add_token(path, "panel", [], ["c"], for_certificate=True)
    access = Access(path, local=EVERYTHING)
    for _ in range(3):
        access.check()
    assert (access.revision, certificate) == (1, "")
    assert access.describe() == f"open to clients with a token of {path} and clients of this machine " + (
        "(--anonymous or --tokens lets others in)"
    )
    kitchen, panel = Rights("kitchen", ("a",), ("b",)), Rights("panel", (), ("c",))
    known = [access.rights(token), access.rights(None, "panel"), access.rights("x", "panel", True)]
    assert known == [kitchen, panel, None]
    assert [access.rights(None, "other", is_local) for is_local in (True, False)] == [EVERYTHING, None]
    path.write_text("{}\n")
    for _ in range(2):
        access.check()
    assert access.rights(token) == kitchen
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"{path}, line 1: ")
    path.unlink()
    access.check()
    assert (access.rights(token), access.revision, len(caplog.messages)) == (kitchen, 1, 2)
    assert Access(anonymous=Rights("all")).describe() == "open to everybody"
    assert Access().describe() == "open to nobody"
    for name in ("", "a b", "ü", "n" * 65):
        with pytest.raises(ConfigurationError, match="expected 1 to 64 letters"):
            add_token(tmp_path / "other", name, [], [])
    add_token(tmp_path / "other", "n" * 64, [], [])
    with pytest.raises(ConfigurationError, match="glue http token new` makes it"):
        Access(tmp_path / "missing")
