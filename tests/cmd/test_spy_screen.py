"""The screen of `glue spy`, key by key: which line is chosen, what is open, what is shown and asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.cmd import common
from glue.cmd.watching import Watch
from glue.errors import GlueError
from glue.spying.bus import Sample
from tests.cmd.test_spy import Seen

pytest.importorskip("textual")

from textual.widgets import Input, Static

from glue.cmd import spy_app
from glue.cmd.spy_app import SpyApp
from glue.cmd.spy_tree import TopicTree


def on_screen(
    seen: Seen, main: Callable[[SpyApp, TopicTree, Any], Awaitable[None]], rows: int = 40, filter: str = ""
) -> None:
    """Use the screen; it is drawn anew only when `app.draw` is called."""
    app = SpyApp(cast(Watch, seen), filter)

    async def use() -> None:
        async with app.run_test(size=(120, rows)) as pilot:
            await main(app, app.query_one(TopicTree), pilot)
            await pilot.pause()

    asyncio.run(use())


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn by itself."""
    monkeypatch.setattr(spy_app, "DRAW_EVERY", 1_000.0)


KEYS: dict[str, tuple[str, Any]] = {
    "up": ("move", -1), "down": ("move", 1), "pageup": ("move", -20), "pagedown": ("move", 20),
    "home": ("move", -1_000_000), "end": ("move", 1_000_000), "right": ("open", True), "left": ("open", False),
    "enter": ("turn", None), "space": ("turn", None),
}  # fmt: skip
"""What the keys of the tree do."""


def do(tree: TopicTree, *keys: str) -> str:
    """Do at once what keys do; returns where that leads."""
    for key in keys:
        name, value = KEYS[key]
        action = getattr(tree, f"action_{name}")
        action() if value is None else action(value)
    return tree.node.path if tree.node is not None else ""


def click(tree: TopicTree, y: int) -> None:
    """Click on a line of the screen."""
    tree.on_click(cast(Any, SimpleNamespace(y=y)))


def test_each_key_of_the_tree_does_what_it_is_bound_to() -> None:
    bound = {key: binding.action for binding in TopicTree.BINDINGS for key in binding.key.split(",")}  # type: ignore[union-attr]
    assert bound == {key: name if value is None else f"{name}({value})" for key, (name, value) in KEYS.items()}
    keys = {key: binding.action for binding in SpyApp.BINDINGS for key in binding.key.split(",")}  # type: ignore[union-attr]
    assert keys == {
        "q": "quit", "ctrl+c": "quit", "slash": "ask('filter')", "m": "show_message", "p": "show_plot",
        "n": "next_field", "w": "ask('publish')", "z": "freeze", "escape": "leave",
    }  # fmt: skip


def test_the_keys_that_are_shown_at_the_bottom_are_those_that_nobody_guesses() -> None:
    bindings = [*SpyApp.BINDINGS, *TopicTree.BINDINGS]
    assert [(one.key, one.description) for one in bindings if one.show] == [  # type: ignore[union-attr]
        ("q,ctrl+c", "Quit"), ("slash", "Filter"), ("m", "Message"), ("p", "Plot"), ("n", "Next number"),
        ("w", "Publish"), ("z", "Freeze"), ("enter,space", "Open/close"),
    ]  # fmt: skip


def shown(app: SpyApp, id: str) -> str:
    return str(app.query_one(id, Static).render())


def test_keys_and_clicks_choose_lines_and_open_levels() -> None:
    async def main(app: SpyApp, tree: TopicTree, pilot: Any) -> None:
        def press(key: str) -> str:
            return do(tree, key)

        assert [node.path for node in tree.topics.lines] == [
            "attic", "home", "home/hall", "home/hall/door", "home/hall/lamp",
        ]  # fmt: skip
        assert [press(key) for key in ("down", "down", "up", "up", "up")] == [
            "home", "home/hall", "home", "attic", "attic",
        ]  # fmt: skip
        assert [press(key) for key in ("left", "right", "enter", "end", "down", "home", "pagedown", "pageup")] == [
            "attic", "attic", "attic", "home/hall/lamp", "home/hall/lamp", "attic", "home/hall/lamp", "attic",
        ]  # fmt: skip
        assert len(tree.topics.lines) == 5
        assert [press(key) for key in ("end", "right", "left", "left", "left", "left", "left")] == [
            "home/hall/lamp", "home/hall/lamp", "home/hall", "home/hall", "home", "home", "home",
        ], "to the level above, which closes, to the one above it, which closes"  # fmt: skip
        assert [node.path for node in tree.topics.lines] == ["attic", "home"]
        assert (press("right"), len(tree.topics.lines)) == ("home", 3)
        assert (press("space"), len(tree.topics.lines)) == ("home", 2)
        assert (press("enter"), len(tree.topics.lines)) == ("home", 3)
        click(tree, 2)
        assert tree.chosen == 2
        click(tree, 0)
        assert tree.chosen == 0
        click(tree, 9)
        assert tree.chosen == 2
        assert tree.render_line(7).text.strip() == ""
        assert tree.render_line(2).text.startswith("  ▸ hall")

    on_screen(Seen("home/hall/lamp", "home/hall/door", "attic"), main)


def test_a_long_list_is_scrolled_to_the_chosen_line_and_no_further() -> None:
    async def main(app: SpyApp, tree: TopicTree, pilot: Any) -> None:
        for _ in range(2):  # with the bar for scrolling there
            tree.measure()
            await pilot.pause()
        height = tree.scrollable_content_region.height
        assert (len(tree.topics.lines), 5 < height < 8) == (50, True)

        async def press(*keys: str) -> tuple[int, int]:
            for key in keys:
                do(tree, key)
            await pilot.pause()
            return tree.chosen, tree.scroll_offset.y

        assert await press(*["down"] * (height - 1)) == (height - 1, 0)
        assert await press("down") == (height, 1)
        assert await press("end") == (49, 50 - height)
        assert await press("up") == (48, 50 - height)
        assert await press(*["up"] * (height - 2)) == (50 - height, 50 - height)
        assert await press("up") == (49 - height, 49 - height)
        assert await press("pageup") == (29 - height, 29 - height)
        click(tree, 2)
        assert tree.chosen == 31 - height
        assert tree.render_line(2).text.startswith(f"  t{31 - height:02}")

    on_screen(Seen(*[f"t{number:02}" for number in range(50)]), main, rows=10)


def test_the_chosen_line_stays_with_its_topic_while_others_come_and_the_picture_can_stand_still() -> None:
    seen = Seen("m")

    def come(name: str, sequence: int = 1, value: Any = 1) -> None:
        seen.bus.take(5.0, Sample(name, value, 25, "json", "kitchen", "k", 1, sequence, 5.0))

    async def main(app: SpyApp, tree: TopicTree, pilot: Any) -> None:
        come("a")
        app.draw()
        assert (tree.chosen, tree.node and tree.node.path) == (1, "m")
        app.action_freeze()
        assert shown(app, "#head").endswith("samples/s  frozen")
        come("0")
        app.draw()
        assert [node.path for node in tree.topics.lines] == ["0", "a", "m"], "they are there once it goes on"
        assert "  2 topics  " in shown(app, "#head")
        app.action_freeze()
        assert "frozen" not in shown(app, "#head")
        app.draw()
        seen.bus.left_out = 1_234
        app.draw()
        assert "  1,234 samples left out" in shown(app, "#head")
        assert shown(app, "#head").startswith("spy  #  3 topics  0 peers  ")
        assert shown(app, "#columns").split() == ["TOPIC", "RATE", "SIZE", "TYPE", "VALUE", "FROM", "TO", "LOSS"]

    on_screen(seen, main)


def test_the_head_counts_samples_a_second_and_looks_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, looks = Seen("m"), list[float]()
    now = [1_000.0]
    monkeypatch.setattr(spy_app, "time", SimpleNamespace(monotonic=lambda: now[0]))
    seen.look = lambda: looks.append(now[0])  # type: ignore[method-assign]

    async def main(app: SpyApp, tree: TopicTree, pilot: Any) -> None:
        for seconds, samples in ((1_000.5, 5), (1_001.0, 10), (1_001.5, 0), (1_003.0, 15)):
            now[0] = seconds
            seen.bus.samples += samples
            app.draw()
            assert shown(app, "#head").endswith(f"{samples / (1.5 if samples == 15 else 0.5):g} samples/s")
        assert looks == [1_001.0, 1_003.0]

    on_screen(seen, main)


def test_the_message_and_the_plot_of_the_chosen_topic_are_shown_and_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spy_app, "SERIES", 2)
    seen = Seen("a", "b", "c")
    cut = Sample("cut", b"abc", 1_000, "bytes", "kitchen", "k", 1, 7, 5.0)
    seen.bus.take(5.0, cut)
    seen.bus.take(5.0, Sample("text", "on", 4, "json", "kitchen", "k", 1, 1, 5.0))

    async def main(app: SpyApp, tree: TopicTree, pilot: Any) -> None:
        def displayed() -> tuple[bool, bool]:
            return app.query_one("#about").display, app.query_one("#plot").display

        assert displayed() == (False, False)
        app.action_show_message()
        assert displayed() == (True, False)
        assert shown(app, "#text").splitlines() == [
            "a  25 bytes  kitchen #11", "{", '  "celsius": 31,', '  "on": true', "}",
        ]  # fmt: skip
        app.action_show_plot()
        assert displayed() == (True, True)
        first, *picture = shown(app, "#plot").splitlines()
        assert (first.split("   ")[0], len(picture)) == ("a celsius = 31", 8)
        assert {len(one) for one in picture} == {120 - 4}
        assert first.split("   ")[1] == "on ▄"
        app.action_next_field()
        assert shown(app, "#plot").startswith("a on = 1   celsius ▄")
        for _ in range(3):
            app.action_next_field()
        assert shown(app, "#plot").startswith("a celsius = 31")
        for _ in range(2):
            do(tree, "down")
            app.on_topic_tree_chosen()
        assert [*app.series] == ["b", "c"]
        do(tree, "down")
        app.on_topic_tree_chosen()
        assert shown(app, "#text").splitlines() == [
            "cut  1,000 bytes  kitchen #7", "abc",
            "... the first 3 of 1,000 bytes; subscribe to the topic to get all",
        ]  # fmt: skip
        assert shown(app, "#plot") == "cut: no numbers to plot"
        app.action_show_message()
        app.action_show_plot()
        assert displayed() == (False, False)

    on_screen(seen, main)


def test_a_topic_with_other_fields_in_each_message_takes_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spy_app, "KEPT_FIELDS", 3)
    seen = Seen("x")

    async def main(app: SpyApp, tree: TopicTree, pilot: Any) -> None:
        for number in range(5):
            value = {"steady": number, f"once{number}": 1}
            seen.bus.take(6.0 + number, Sample("x", value, 20, "json", "kitchen", "k", 1, 20 + number, 6.0))
            app.on_topic_tree_chosen()
        assert [*app.series["x"]] == ["steady", "once3", "once4"], "in an order that stays"
        assert app.series["x"]["steady"].values == [0, 1, 2, 3, 4]

    on_screen(seen, main)


def test_a_level_that_is_no_topic_has_no_message_and_no_plot() -> None:
    async def main(app: SpyApp, tree: TopicTree, pilot: Any) -> None:
        app.action_show_message()
        app.action_show_plot()
        for key, is_topic in (("up", False), ("down", True), ("up", False)):
            assert do(tree, key) == ("home/lamp" if is_topic else "home")
            app.on_topic_tree_chosen()
            assert [app.query_one(part).display for part in ("#about", "#plot")] == [is_topic] * 2

    on_screen(Seen("home/lamp"), main)


def test_a_filter_and_a_publication_are_asked_for_and_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, told = Seen("a", "home/lamp", "home/door"), list[tuple[str, Any]]()

    async def main(app: SpyApp, tree: TopicTree, pilot: Any) -> None:
        monkeypatch.setattr(app, "notify", lambda text, **how: told.append((text, how.get("severity"))))
        asking = app.query_one("#asking", Input)

        def answer(what: str, text: str) -> None:
            app.action_ask(what)
            app.on_input_submitted(Input.Submitted(asking, text))

        assert [node.path for node in tree.topics.lines] == ["home", "home/lamp"]
        assert shown(app, "#head").endswith("filter: lamp")
        do(tree, "end")
        await pilot.press("slash")
        assert (asking.value, asking.display, app.focused) == ("lamp", True, asking)
        assert asking.placeholder == "text in the topic, or a pattern such as home/+/lamp; empty: all"
        app.action_leave()
        await pilot.pause()
        assert (asking.display, app.focused, tree.topics.filter) == (False, tree, "lamp")
        answer("filter", " door ")
        assert (tree.topics.filter, tree.chosen, asking.display) == ("door", 0, False)
        answer("filter", "")
        assert len(tree.topics.lines) == 4
        do(tree, "home")
        app.action_ask("publish")
        assert (asking.value, asking.placeholder) == ("a ", "TOPIC PAYLOAD: JSON, else text; Enter publishes")
        for text in ("x  on", "  ", "x [1, 2]"):
            answer("publish", text)
        assert seen.published == [("x", " on"), ("x", [1, 2])]
        assert told == [("published to 0 subscribers", None)] * 2

        def refuse(*_: Any, **__: Any) -> None:
            raise GlueError("a wrong topic")

        seen.endpoint.publish = refuse
        answer("publish", "x 1")
        assert told[2:] == [("a wrong topic", "error")]
        do(tree, "down")
        app.action_ask("publish")
        assert asking.value == "", "a level is no topic"

    on_screen(seen, main, filter="lamp")


def test_an_empty_screen_takes_all_keys_and_the_end_of_the_command_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[float]()

    async def main(app: SpyApp, tree: TopicTree, pilot: Any) -> None:
        do(tree, *KEYS)
        for action in (app.action_show_message, app.action_show_plot, app.action_next_field, app.action_freeze):
            action()
        app.action_ask("publish")
        app.action_leave()
        app.action_freeze()
        assert (tree.chosen, tree.node, app.chosen_topic) == (0, None, None)
        monkeypatch.setattr(app, "exit", lambda: ended.append(time.monotonic()))
        app.draw()
        monkeypatch.setattr(common, "is_ending", lambda: True)
        assert not ended
        app.draw()
        assert len(ended) == 1

    on_screen(Seen(), main)
