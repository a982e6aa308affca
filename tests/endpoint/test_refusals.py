"""What an endpoint refuses with which words, and what it closes again when it could not be opened."""

from __future__ import annotations

import sys
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.endpoint import inquiring, model_options
from glue.endpoint.keeper import MEMORY
from glue.endpoint.model_options import open_deltas, open_storage
from glue.endpoint.receiver_methods import model_named, remote
from glue.endpoint.stores import METHODS, open_store
from glue.receivers.address import parse
from glue.simulation import World


def refused(call: Any) -> str:
    """The words with which a call is refused."""
    with pytest.raises(glue.ConfigurationError) as caught:
        call()
    return str(caught.value)


class Store:
    """A store with all methods."""

    def claim(self) -> None:
        """As all stores."""

    load = save = close = claim


def test_a_store_has_four_methods_or_is_named_by_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = Store()
    assert open_store(store) is store
    assert open_store(None) is None
    for missing in METHODS:
        kind = type("Partly", (), {name: Store.claim for name in METHODS if name != missing})
        wrong: Any = kind()
        assert refused(lambda wrong=wrong: open_store(wrong)).endswith(
            f"it has no method {missing}; see glue.receivers.Store"
        )
    assert refused(lambda: open_store("sqlite:")) == "store='sqlite:': expected sqlite:PATH"
    assert refused(lambda: open_store("x:y")) == "store='x:y': expected sqlite:PATH, redis://…, or an entry point"
    monkeypatch.setitem(sys.modules, "redis", None)
    for text in ("redis://h", "rediss://h"):
        with pytest.raises(glue.MissingExtraError, match="redis"):
            open_store(text)
    with pytest.raises(glue.StorageError, match=r"^store '/nowhere/at/all': "):
        open_store("sqlite:/nowhere/at/all")
    made: list[str] = []

    def make(rest: str) -> Any:
        made.append(rest)
        return store

    points = [SimpleNamespace(name="other", load=lambda: None), SimpleNamespace(name="mine", load=lambda: make)]
    monkeypatch.setattr("glue.endpoint.stores.entry_points", lambda group: points if group == "glue.stores" else [])
    assert open_store("mine:a:b") is store
    assert made == ["a:b"]


def test_a_layer_in_place_of_ours_may_lack_what_is_asked_for() -> None:
    endpoint: Any = SimpleNamespace(_core=SimpleNamespace(stack=SimpleNamespace(layers={"discovery": object()})))
    words = "discovery=…: this layer has no exam; leave it out"
    assert refused(lambda: inquiring.begin(endpoint, ["report"], 1.0)) == words
    assert refused(lambda: inquiring.begin_round(endpoint, 5)) == words
    core: Any = SimpleNamespace(stack=SimpleNamespace(layers={"model": Store()}))
    options: Any = {
        "voters": 1, "members": None, "observer": False, "mergeable": None, "open_directory": lambda: None,
        "election_timeout": 1.0,
    }  # fmt: skip
    assert refused(lambda: model_options.model_options(core, "m", **options)) == (
        "the model layer is Store, which has no models; leave out model=…"
    )


def test_answers_of_endpoints_come_by_name() -> None:
    inquiry: Any = SimpleNamespace(
        names={"1": "b", "2": "a", "3": "a"}, answers={"1": [("report", 1)], "3": [], "2": [("links", None)]}
    )
    assert inquiring.answered(inquiry) == [
        inquiring.Answered("a", "2", {"links": None}), inquiring.Answered("a", "3", {}),
        inquiring.Answered("b", "1", {"report": 1}),
    ]  # fmt: skip


def test_a_model_is_opened_once_and_by_names() -> None:
    endpoint: Any = World().endpoint("a")
    assert refused(lambda: endpoint.model("m", members="abc")) == "members='abc': expected a list of endpoint names"
    endpoint.model("m", voters=1)
    group = endpoint._core.stack.layers["model"]
    group.groups["n"] = None
    assert refused(lambda: endpoint.model("n", voters=1)) == "model 'n' is open at this endpoint already"


def test_receivers_name_their_model_or_have_one_of_their_own() -> None:
    opened: list[Any] = []
    endpoint = SimpleNamespace(_models={}, model=lambda name, voters: opened.append((name, voters)))
    assert model_named(endpoint, SimpleNamespace(name="plant")) == "plant"
    assert opened == []
    assert model_named(endpoint, None) == "receivers"
    assert opened == [("receivers", 1)]
    endpoint._models["receivers"] = 1
    assert model_named(endpoint, None) == "receivers"
    assert len(opened) == 1
    for wrong in (5, SimpleNamespace(name=5)):
        words = f"model={wrong!r}: expected a model, such as endpoint.model('plant', voters=3)"
        assert refused(lambda wrong=wrong: model_named(endpoint, wrong)) == words


def test_an_error_of_a_receiver_here_is_as_one_from_elsewhere() -> None:
    error = glue.RequestTimeoutError("late")
    assert remote(error, parse("sum/x")) is error
    found = remote(KeyError("k"), parse("sum/x"))
    assert isinstance(found, glue.RemoteError)
    assert str(found) == "sum/x: KeyError: 'k'"


class Directory:
    """A directory that is read as the test says."""

    def __init__(self) -> None:
        self.is_closed = 0

    def close(self) -> None:
        self.is_closed += 1


def test_what_could_not_be_loaded_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from glue.errors import CorruptStorageError

    directory: Any = Directory()
    did: list[str] = []

    class Files:
        fails = ""

        def __init__(self, directory: Any, rng: Any) -> None:
            assert directory is not None

        def load(self) -> str:
            if self.fails == "load":
                raise glue.StorageError("no disk")
            if self.fails:
                raise CorruptStorageError("damaged")
            return "loaded"

        def begin_anew(self) -> str:
            if self.fails == "anew":
                raise glue.StorageError("no disk")
            return "anew"

        def close(self) -> None:
            did.append("closed")

    monkeypatch.setattr(model_options, "FileStorage", Files)
    for fails, expected in (("", "loaded"), ("damaged", "anew")):
        Files.fails = fails
        found: Any = open_storage(directory, Random(1))[1]
        assert found == expected
    assert did == []
    for fails in ("load", "anew"):
        Files.fails = fails
        with pytest.raises(glue.StorageError, match="no disk"):
            open_storage(directory, Random(1))
    assert did == ["closed", "closed"]
    memory, stored = open_storage(None, Random(1))
    assert stored.vital.group == ""
    prefixes: Any = {}
    assert open_deltas(None, prefixes) == (None, [])
    assert memory is not None


def test_a_log_that_cannot_be_opened_lets_go_of_its_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint: Any = glue.Endpoint("a")
    directory = Directory()
    monkeypatch.setattr(endpoint, "_open_directory", lambda data_dir: directory)
    monkeypatch.setattr(endpoint._core, "at_rest", lambda directory: directory)

    def fail(*_: Any) -> Any:
        raise glue.StorageError("damaged")

    monkeypatch.setattr("glue.storage.FileLog", fail)
    with pytest.raises(glue.StorageError, match="damaged"):
        endpoint._open_log("/somewhere", None)
    assert directory.is_closed == 1
    assert endpoint._open_log(None, 500)._limit == 500
    assert endpoint._open_log(None, None)._limit == MEMORY


def test_a_policy_and_an_identity_need_a_key() -> None:
    make: Any = glue.Endpoint
    for option in ("policy", "identity"):
        words = f"{option} without a key: name the key file, too (key=, GLUE_KEY or --key)"
        assert refused(lambda option=option: make("a", **{option: "/somewhere"})) == words


def test_unknown_settings_and_layers_are_refused_with_what_there_is() -> None:
    make: Any = glue.Endpoint
    assert refused(lambda: make("a", nonsense=1)).startswith("unknown setting or layer 'nonsense'; the settings are ")
    assert refused(lambda: make("a", topics=5)) == "topics=5: expected a factory of that layer, such as its class"
