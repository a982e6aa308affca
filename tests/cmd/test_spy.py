"""`glue spy`: lines of topics that changed, and the screen, over a table of topics without a network."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.cmd import spy, watching
from glue.cmd.losses import Losses
from glue.cmd.output import CommandOutput
from glue.cmd.watching import Watch, sample_of, shown_value, some
from glue.contract import Delivery
from glue.contract.metadata import Metadata
from glue.endpoint.message import Message
from glue.simulation import Conditions, World
from glue.spying.bus import Bus, Sample, Topic
from glue.spying.roles import Announced, Roles
from glue.topics.samples import CODEC, SIZE
from tests.support.lan import PATIENCE


class Seen:
    """A watch without an endpoint that samples."""

    def __init__(self, *names: str) -> None:
        self.bus, self.roles, self.lock, self.pattern = Bus(), Roles(), threading.Lock(), "#"
        self.losses = Losses()
        self.published: list[tuple[str, Any]] = []
        self.endpoint = SimpleNamespace(
            name="spy",
            peers=[],
            subscribers=lambda topic: [],
            publish=lambda t, p, block: self.published.append((t, p)),
        )
        self.roles.change(Announced("home/#", "subscriber", "hall"), True)
        for sequence in (1, 11):
            for name in names:
                value = {"celsius": 20 + sequence, "on": True}
                at = sequence / 10
                self.bus.take(at, Sample(name, value, 25, "json", "kitchen", "k", 1, sequence, at))

    def look(self) -> None:
        """Nothing to do."""


def test_lines_tell_what_changed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 1.1)
    seen, stream = Seen("home/hall/lamp", "attic"), io.StringIO()
    output = CommandOutput(stream, json=False, unread=lambda: None)
    spy.report(cast(Watch, seen), 10, output)
    spy.report(cast(Watch, seen), 10, output)
    first, second = stream.getvalue().splitlines()
    told = 'home/hall/lamp 10/s 25 B json {"celsius": 31, "on": true} kitchen → hall'
    assert " ".join(first.split()) == told
    assert second.endswith("kitchen → nobody")


def test_lines_can_be_filtered_and_are_json_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 1.1)
    seen, stream = Seen("home/hall/lamp", "attic"), io.StringIO()
    output = CommandOutput(stream, json=True, unread=lambda: None)
    spy.report(cast(Watch, seen), 10, output, lambda name: "lamp" in name)
    (line,) = stream.getvalue().splitlines()
    assert '"rate": 10.0' in line
    assert '"subscribers": ["hall"]' in line


def test_a_watch_tells_what_is_lost_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.network.set_conditions(Conditions(loss=0.2))
    kitchen, hall, watcher = (world.endpoint(name) for name in ("kitchen", "hall", "watcher"))
    hall.subscribe("home/#", str)
    assert world.run_until(lambda: len(kitchen.subscribers("home/lamp")) == len(watcher.peers) - 1 == 1, 20)
    for _ in range(1000):  # as many frames as it takes to measure a loss
        kitchen.publish("home/lamp", "on")
        world.run(0.002)
    monkeypatch.setattr(watching, "sample", lambda *_: None)
    monkeypatch.setattr("time.monotonic", lambda: world.time)
    watch = Watch(cast(Any, watcher), "#")
    for _ in range(6):  # a question or an answer may be lost
        world.run(2.0)
        watch.look()
    topic = watch.bus.take(world.time, Sample("home/lamp", "on", 4, "json", "kitchen", kitchen.id, 1, 1, world.time))
    assert topic is not None
    stream = io.StringIO()
    watch.bus.topics[topic.name].changed = True
    spy.report(watch, 10, CommandOutput(stream, json=False, unread=lambda: None))
    loss = watch.losses.worst(["kitchen"], ["hall"])
    assert loss is not None
    assert 0.05 < loss < 0.5
    assert f"({100 * loss:.1f} % lost)" in stream.getvalue()


def test_a_watch_notes_who_subscribes(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    kitchen, hall, watcher = (world.endpoint(name) for name in ("kitchen", "hall", "watcher"))
    assert world.run_until(lambda: len(watcher.peers) == len(kitchen.peers) == 2, 5)
    hall.subscribe("home/#", str)
    monkeypatch.setattr(watching, "sample", lambda endpoint, pattern, handler, *_: watcher.subscribe("$none", str))
    watch = Watch(cast(Any, watcher), "#")
    world.run(0.1)
    watch.look()
    assert watch.roles.names("home/a", "subscriber") == ["hall"]


def test_samples_become_rows_whatever_peers_send() -> None:
    def told(payload: Any, encoded: bytes, **metadata: Any) -> Sample:
        one = Delivery("a", [payload], None, "kitchen", "k", 1, 7, 5.0, False, ("t",))
        one.encoded = [encoded]
        if metadata:
            one.metadata = Metadata(**metadata)
        return sample_of(Message(payload, 7, one))

    assert told({"a": 1}, b'{"a":1}')[2:4] == (7, "json")
    assert told(b"abc", b"abc")[2:4] == (3, "bytes")
    assert told(b"abc", b"abc", codec=1).codec == "msgpack"
    assert told(b"abc", b"abc", properties={SIZE: "100", CODEC: "3"})[2:4] == (100, "numpy")
    assert told(b"abc", b"abc", properties={SIZE: "x", CODEC: "own"})[2:4] == (3, "own")


def test_values_are_shown_whatever_they_are() -> None:
    topic = Topic("a")
    topic.payload, topic.codec = b"\xc1", "no such codec"
    assert shown_value(topic, 20) == "c1"
    topic.payload, topic.codec = object, ""
    assert shown_value(topic, 20) == "<class 'object'>"
    assert some(["a", "b", "c", "d"]) == "a, b +2"


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--every", "0.01"], "expected 0.1 to 3600 seconds"), (["--lines", "0"], "out of range"), (["a/#/b"], "a/#/b")],
)
def test_wrong_arguments_are_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: Any = spy.main(words)
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "is_interactive", "terminals", "has_textual", "shows", "told"),
    [
        ([], True, (True, True), True, "screen", ""),
        (["--plain"], True, (True, True), True, "lines", ""),
        ([], False, (True, True), True, "lines", ""),
        ([], True, (False, True), True, "lines", ""),
        ([], True, (True, False), True, "lines", ""),
        ([], True, (True, True), False, "lines", spy.MISSING + "\n"),
        (["--plain"], True, (True, True), False, "lines", ""),
        ([], True, (True, False), False, "lines", ""),
        ([], False, (True, True), False, "lines", ""),
    ],
)
def test_the_screen_is_for_those_who_have_a_terminal_and_what_draws_it(
    words: list[str], is_interactive: bool, terminals: tuple[bool, bool], has_textual: bool, shows: str, told: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    pytest.importorskip("textual")
    opened: list[object] = []

    def watch(*given: object) -> str:
        opened.append(given)
        return "watch"

    def screen(*given: object) -> Any:
        return SimpleNamespace(run=lambda: opened.append(("screen", *given)))

    monkeypatch.setattr(spy, "find_spec", lambda name: object() if has_textual else None)
    monkeypatch.setattr(spy, "open_endpoint", lambda *_, quiet: nullcontext("endpoint" if quiet else "loud"))
    monkeypatch.setattr(spy, "Watch", watch)
    monkeypatch.setattr(spy, "print_lines", lambda found, *_: opened.append(("lines", found)))
    monkeypatch.setattr("glue.cmd.spy_app.SpyApp", screen)
    for stream, is_terminal in zip((sys.stdin, sys.stderr), terminals, strict=True):
        monkeypatch.setattr(stream, "isatty", lambda is_terminal=is_terminal: is_terminal)
    arguments = spy.parser().parse_args(["home/#", "--every", "2", *words])
    assert spy.run(arguments, cast(CommandOutput, SimpleNamespace(interactive=is_interactive))) == 0
    assert opened == [
        ("endpoint", "home/#", 2.0), ("screen", "watch", "") if shows == "screen" else ("lines", "watch"),
    ]  # fmt: skip
    assert capsys.readouterr().err == told


def test_the_screen_shows_filters_plots_and_publishes() -> None:
    pytest.importorskip("textual")
    from textual.widgets import Input, Static

    from glue.cmd.spy_app import SpyApp
    from glue.cmd.spy_tree import TopicTree

    seen = Seen("home/hall/lamp", "home/hall/door", "attic")
    app = SpyApp(cast(Watch, seen))

    async def use() -> None:
        async with app.run_test(size=(120, 40)) as pilot:
            tree = app.query_one(TopicTree)
            assert [node.path for node in tree.topics.lines] == [
                "attic", "home", "home/hall", "home/hall/door", "home/hall/lamp",
            ]  # fmt: skip
            await pilot.press("down", "left")
            assert len(tree.topics.lines) == 2
            await pilot.press("enter", "end", "m", "p", "n")
            assert '"celsius": 31' in str(app.query_one("#text", Static).render())
            assert "on = 1" in str(app.query_one("#plot", Static).render())
            assert tree.render_line(0).text.startswith("  attic")
            await pilot.press("slash", *"door", "enter")
            assert [node.path for node in tree.topics.lines] == ["home", "home/hall", "home/hall/door"]
            await pilot.press("end", "w")
            app.query_one("#asking", Input).value += '{"open": 1}'
            await pilot.press("enter", "q")

    asyncio.run(use())
    assert seen.published == [("home/hall/door", {"open": 1})]


def test_the_screen_shows_what_comes_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("textual")
    from glue.cmd import spy_app
    from glue.cmd.spy_tree import TopicTree

    monkeypatch.setattr(spy_app, "DRAW_EVERY", 0.01)
    seen = Seen("attic")
    app = spy_app.SpyApp(cast(Watch, seen))

    async def use() -> list[str]:
        async with app.run_test(size=(120, 40)) as pilot:
            lines = app.query_one(TopicTree).topics.lines
            assert [node.path for node in lines] == ["attic"]
            seen.bus.take(2.0, Sample("cellar", 7, 1, "json", "kitchen", "k", 1, 1, 2.0))
            ends = time.monotonic() + PATIENCE
            while len(app.query_one(TopicTree).topics.lines) < 2 and time.monotonic() < ends:
                await pilot.pause(0.01)
            found = [node.path for node in app.query_one(TopicTree).topics.lines]
            await app.query_one(TopicTree).remove()
            app.draw()  # the screen is taken down: nothing is drawn, and nothing is wrong
            return found

    assert asyncio.run(use()) == ["attic", "cellar"]
