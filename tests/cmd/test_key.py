"""`glue key`, step by step: every line that it prints, and what it refuses."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import glue
from glue.cmd import common
from glue.cmd import key as command
from glue.endpoint.secrets import read_key
from glue.security import suites
from tests.cmd.prepared import Calls

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in a folder of its own at a known time; returns the code, the output and the errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    made = iter(range(1, 100))
    monkeypatch.setattr(os, "urandom", lambda size: bytes([next(made)]) * size)

    def run_it(*words: str) -> tuple[int, str, str]:
        code = command.main([word for text in words for word in text.split(" ")])
        return code, *capsys.readouterr()

    return run_it


def good(run: Run, *words: str) -> str:
    code, out, err = run(*words)
    assert (code, err) == (0, ""), words
    return out


def test_a_key_is_made_shown_and_rotated_beside_the_network(run: Run) -> None:
    first = good(run, "new plant.key")
    newest = read_key("plant.key").newest
    assert first == f"plant.key: epoch 1, id {newest.id:02x}; copy it to each endpoint, and keep it secret\n"
    assert run("new plant.key") == (2, "", "glue key: plant.key exists; it is not replaced\n")
    text = good(run, "rotate plant.key --leaked --overlap 30.4")
    second = read_key("plant.key")
    epoch = f"epoch 2, id {second.newest.id:02x}"
    assert text == f"{epoch}\ncopy plant.key to each endpoint within 30 s; running endpoints read it anew\n"
    shown = good(run, "show plant.key").splitlines()
    assert shown[:-1] == [f"epoch 1, id {newest.id:02x}", epoch]
    assert shown[-1].startswith("this machine seals with ")
    events = [json.loads(line) for line in good(run, "rotate plant.key --leaked --json").splitlines()]
    third = read_key("plant.key").newest
    told = [{name: one[name] for name in one if name not in ("glue", "format")} for one in events]
    assert told == [
        {"event": "epoch", "epoch": 3, "id": f"{third.id:02x}"},
        {"event": "copy", "file": "plant.key", "seconds": 60.0},
    ]
    assert third.id != second.newest.id


@pytest.mark.parametrize(("words", "told"), [
    ("rotate plant.key --overlap 2678401", "--overlap 2678401.0: expected at most 2678400 seconds"),
    ("rotate plant.key --leaked --overlap 2678401", "--overlap 2678401.0: expected at most 2678400 seconds"),
    ("admit her.identity --authority plant.authority --publish a/#/b", "'a/#/b'"),
    ("rotate plant.key --without hall", "members of this key have identities, so --authority has to sign"),
    ("rotate signed.key", "members of this key have identities, so --authority has to sign the new epoch"),
    ("open x.pcapng --key plant.key --output ./x.pcapng", "--output ./x.pcapng: this is the capture itself"),
])  # fmt: skip
def test_what_is_refused_changes_no_file(run: Run, words: str, told: str) -> None:
    Path("x.pcapng").write_bytes(b"")
    for step in (
        "new plant.key", "new signed.key", "authority plant.authority --key signed.key", "identity her her.identity",
    ):  # fmt: skip
        good(run, step)
    before = {path: path.read_bytes() for path in Path().iterdir()}
    code, out, err = run(words)
    assert (code, out) == (2, "")
    assert told in err
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def member(newest: int) -> Any:
    return SimpleNamespace(newest=newest)


@pytest.mark.parametrize(("newest", "lives", "known", "have", "code"), [
    (2, [2, 2], True, 2, 0), (2, [2, 3], True, 2, 0), (2, [2, 1], False, 1, 1), (2, [2], True, 1, 0),
    (2, [], False, 0, 0), (1, [1, 1], False, 0, 1), (1, [2, 2], False, 2, 0),
])  # fmt: skip
def test_members_have_an_epoch_when_all_have_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, newest: int, lives: list[int], known: bool, have: int, code: int
) -> None:
    good(run, "new plant.key")
    key = SimpleNamespace(newest=SimpleNamespace(number=newest))
    security = SimpleNamespace(key=key, lives=SimpleNamespace(fresh=[*map(member, lives)]))
    waited: list[tuple[bool, float]] = []

    def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
        waited.append((condition(), seconds))
        return True

    endpoint = SimpleNamespace(_core=SimpleNamespace(security=security), _running=lambda: Calls(wait_until=wait_until))
    made: list[dict[str, Any]] = []

    def open_endpoint(**settings: Any) -> Any:
        assert read_key("plant.key").newest.number == 1, "it joins with the former key"
        made.append(settings)
        return nullcontext(endpoint)

    monkeypatch.setattr(glue, "Endpoint", open_endpoint)
    paused: list[float] = []
    monkeypatch.setattr("glue.cmd.common.pause", paused.append)
    code_found, out, _ = run("rotate plant.key --network-id 7 --interface lo --duration 1.3 --identity me")
    assert paused == [1.2], "all members announce themselves in this time"
    assert made == [{
        "key": "plant.key", "identity": "me", "interface": "lo", "multicast_address": None, "network_id": 7,
    }]  # fmt: skip
    assert out.splitlines()[1:] == [f"{have} of {len(lives)} members have it"]
    assert code_found == code
    assert read_key("plant.key").newest.number == 2
    assert waited[0][0] == known
    assert 0.0 < waited[0][1] <= 0.11


def test_a_rotation_that_is_ended_early_tells_who_has_the_epoch(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_: float) -> None:
        raise common.Ended

    good(run, "new plant.key")
    security = SimpleNamespace(lives=SimpleNamespace(fresh=[member(2), member(1)]))
    there = SimpleNamespace(_core=SimpleNamespace(security=security), _running=Calls)
    monkeypatch.setattr(glue, "Endpoint", lambda **_: nullcontext(there))
    monkeypatch.setattr(common, "pause", end)
    code, out, _ = run("rotate plant.key")
    assert (code, out.splitlines()[1:]) == (1, ["1 of 2 members have it"])


def test_a_member_whose_admission_is_over_may_do_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ("authority plant.authority", "identity hall", "new plant.key"):
        good(run, words)
    good(run, "admit hall.identity --authority plant.authority --days 2 --publish home/#")
    question = "explain hall publish home/lamp --identity hall.identity"
    assert good(run, question).startswith("yes: ")
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0 + 2 * 86_400)
    told = "glue key: hall.identity: admitted until 2027-01-17 08:00, so it may do nothing now; use glue key admit\n"
    assert run(question) == (2, "", told)


def test_members_by_name_are_made_admitted_and_shown(run: Run) -> None:
    good(run, "new plant.key")
    made = good(run, "authority plant.authority --key plant.key")
    assert made == (
        "plant.authority: keep it off the endpoints; whoever has it admits members. "
        "Members of plant.key need identities from now on\n"
    )
    alone = good(run, "authority other.authority")
    assert alone == "other.authority: keep it off the endpoints; whoever has it admits members\n"
    public = good(run, "identity kitchen").partition("public key ")[2].partition("…")[0]
    assert len(public) == 16
    assert good(run, "identity hall her.identity").startswith("her.identity: hall, public key ")
    waiting = "not admitted yet: glue key admit"
    assert good(run, "show kitchen.identity") == f"identity of kitchen, public key {public}…; {waiting}\n"
    rights = "publish home/# b/+; write house/#"
    told = good(run, "admit kitchen.identity --authority plant.authority --publish home/# b/+ --write house/# --days 2")
    assert told == f"kitchen is admitted for 2 days; rights: {rights}\n"
    until = "until 2027-01-17 08:00"
    shown = good(run, "show kitchen.identity")
    assert shown == f"identity of kitchen, public key {public}…; admitted {until}; rights: {rights}\n"
    told = good(run, "admit kitchen.identity --authority plant.authority")
    assert told == "kitchen is admitted for good; rights: none of its own\n"
    shown = good(run, "show kitchen.identity")
    assert shown == f"identity of kitchen, public key {public}…; admitted for good; rights: none of its own\n"
    (event,) = [json.loads(line) for line in good(run, "show plant.authority --json").splitlines()]
    assert good(run, "show plant.authority") == f"an authority, public key {event['public'][:16]}…\n"
    key = read_key("plant.key")
    assert key.authority is not None
    assert key.authority.hex() == event["public"]
    told = good(run, "rotate plant.key --authority plant.authority --without hall --leaked")
    assert told.splitlines()[0].startswith("epoch 2, id ")
    assert "revoked: hall" in good(run, "show plant.key").splitlines()
    for name in ("é" * 127 + "x", "x"):
        good(run, f"identity {name} one.identity")
        Path("one.identity").unlink()
    for name in ("é" * 128, "", "a\tb"):
        code, _, err = run(f"identity {name} one.identity")
        assert code == 2
        assert "expected 1 to 255 printable bytes" in err


def test_rules_are_signed_with_the_next_version_and_explained(run: Run) -> None:
    good(run, "authority plant.authority")
    good(run, "authority other.authority")
    rules = [{"who": "kitchen", "may": ["publish"], "topics": ["home/#"]}]
    Path("rules.json").write_bytes(orjson.dumps(rules))
    told = "rules; an endpoint that starts with this file (policy=, GLUE_POLICY or --policy) tells all others\n"
    for version in (1, 2):
        signed = good(run, "rules rules.json --authority plant.authority")
        assert signed == f"plant.rules: version {version}, 1 {told}"
    code, _, err = run("rules rules.json --authority other.authority")
    assert (code, err) == (
        2, "glue key: plant.rules: no rules of this authority, so the next version is unknown; name another --output\n"
    )  # fmt: skip
    for file in ("plant.rules", "rules.json"):
        code, out, _ = run(f"explain kitchen publish home/x --rules {file}")
        assert (code, out.partition(":")[0]) == (0, "yes")
        code, out, _ = run(f"explain hall publish home/x --rules {file}")
        assert (code, out.partition(":")[0]) == (1, "no")
    assert run("explain hall publish home/x") == (0, "yes: there are no rules\n", "")
    for content in ("{", "7", '{"document": "[]"}', '{"x": 1}'):
        Path("rules.json").write_text(content)
        code, _, err = run("explain hall publish home/x --rules rules.json")
        assert code == 2
        assert err.startswith("glue key: rules.json: no rules: ")


def test_the_rights_of_a_member_are_those_of_its_certificate(run: Run) -> None:
    good(run, "authority plant.authority")
    good(run, "identity kitchen")
    asking = "--identity kitchen.identity"
    assert run(f"explain kitchen publish a {asking}") == (
        2, "", "glue key: kitchen.identity: not admitted yet, so it may do nothing; use glue key admit\n"
    )  # fmt: skip
    good(run, "admit kitchen.identity --authority plant.authority --publish a")
    assert run(f"explain kitchen publish a {asking}")[0] == 0
    assert run(f"explain kitchen publish b {asking}")[0] == 1
    assert run(f"explain hall publish a {asking}") == (
        2, "", "glue key: kitchen.identity is the identity of 'kitchen', not of 'hall'\n"
    )  # fmt: skip
    code, _, err = run("admit kitchen.identity --authority plant.authority --publish a/#/b")
    assert code == 2
    assert "a/#/b" in err


@pytest.mark.parametrize(("counted", "code", "told"), [
    ({"opened": 2, "copied": 1}, 0, "out: 1 frames copied, 2 frames opened\n"),
    ({"still sealed": 3}, 1, "out: 3 frames still sealed; plant.key opens none of those that are sealed\n"),
    ({"copied": 3}, 1, "out: 3 frames copied; none is sealed\n"),
])  # fmt: skip
def test_a_capture_is_opened(
    run: Run, monkeypatch: pytest.MonkeyPatch, counted: dict[str, int], code: int, told: str
) -> None:
    good(run, "new plant.key")
    asked: list[Any] = []

    def copy(source: str, target: str, key: Any, progress: Callable[[float], object]) -> Counter[str]:
        progress(0.5)
        asked.append((source, target, key))
        return Counter(counted)

    monkeypatch.setattr(command, "opened_copy", copy)
    assert run("open in --key plant.key --output out") == (code, told, "")
    assert asked == [("in", "out", read_key("plant.key"))]


@pytest.mark.parametrize("words", [
    "new a", "show a", "rotate a", "authority a", "identity a", "open a --key b --output c", "admit a --authority b",
])  # fmt: skip
def test_without_the_extra_it_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    def refuse() -> None:
        raise glue.MissingExtraError("a key needs cryptography")

    for module in ("glue.cmd.key", "glue.cmd.admitting"):
        monkeypatch.setattr(f"{module}.require", refuse)
    assert suites.require is not refuse
    assert run(words) == (2, "", "glue key: a key needs cryptography\n")
