"""The lines and cells of `glue spy` and `glue topics --list`, of prepared topics."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest

from glue.cmd import common, spy, spy_tree, topic_list, topics, watching
from glue.cmd.losses import Losses
from glue.spying.bus import Bus, Sample, Topic
from glue.spying.roles import Announced, Roles
from glue.spying.tree import Tree
from tests.cmd.prepared import Time, noting, people


def test_values_of_any_kind_are_shown() -> None:
    topic = Topic("a")
    topic.payload, topic.codec = b"\x81\xa1a\x01", "msgpack"
    assert watching.value_of(topic) == {"a": 1}
    assert watching.shown_value(topic, 20) == '{"a": 1}'
    topic.codec = ""
    assert watching.value_of(topic) == b"\x81\xa1a\x01"
    assert [watching._number(text) for text in ("7", "0", "-1", "", "x", "٣", "1" * 15, "1" * 16)] == [
        7, 0, 0, 0, 0, 0, int("1" * 15), 0,
    ]  # fmt: skip
    assert [watching.some(["a", "b", "c"], most) for most in (1, 2, 3)] == ["a +2", "a, b +1", "a, b, c"]


class Watched:
    """What a watch has seen: two topics, who publishes and subscribes, and a loss."""

    def __init__(self) -> None:
        self.bus, self.roles, self.losses = Bus(), Roles(), Losses()
        self.lock: Any = nullcontext()
        for one in (
            Announced("home/#", "subscriber", "attic"),
            Announced("home/#", "subscriber", "cellar"),
            Announced("home/lamp", "publisher", "spare", "Lamp"),
            Announced("home/lamp", "publisher", "third"),
        ):
            self.roles.change(one, True)
        for sequence, at in ((1, 1.0), (11, 2.0)):
            self.bus.take(at, Sample("home/lamp", {"n": sequence}, 1500, "json", "hall", "h", 1, sequence, at, True))
        self.bus.take(2.0, Sample("x", "y", 3, "text", "hall", "h", 1, 7, 2.0))
        self.losses.worst = lambda publishers, subscribers: 0.25 if subscribers else None  # type: ignore[method-assign]


def test_a_topic_is_a_line_and_a_row() -> None:
    watch: Any = Watched()
    lamp, other = watch.bus.topics["home/lamp"], watch.bus.topics["x"]
    line = spy.line_of(lamp, watch, 2.0)
    names = "hall, spare +1 → attic, cellar"
    assert (
        line
        == f"{'home/lamp':32}     10/s   1,500 B  Lamp     " + '{"n": 11}  ' + f"{names}  (retained)  (25.0 % lost)"
    )
    assert spy.line_of(other, watch, 2.0) == f"{'x':32}        -       3 B  text     y  hall → nobody"
    assert watching.topic_fields(lamp, watch, 2.0) == {
        "topic": "home/lamp", "payload": {"n": 11}, "type": "Lamp", "size": 1500, "rate": 10.0, "bytes_rate": 15000.0,
        "messages": 10, "publishers": ["hall", "spare", "third"], "subscribers": ["attic", "cellar"], "loss": 0.25,
        "retained": True, "published_at": 2.0,
    }  # fmt: skip
    assert watching.topic_fields(other, watch, 2.0) == {
        "topic": "x", "payload": "y", "type": "text", "size": 3, "rate": 0.0, "bytes_rate": 0.0, "messages": 0,
        "publishers": ["hall"], "subscribers": [], "loss": None, "retained": False, "published_at": 2.0,
    }  # fmt: skip
    tree = Tree()
    for topic in watch.bus.take_fresh():
        tree.add(topic)
    tree.refresh(2.0)
    home, below, plain = (spy_tree.cells_of(node, watch, 2.5) for node in tree.lines)
    assert [text for text, _ in home] == ["▾ home", "10/s", "", "", "1 topic, 15k B/s", "", "", ""]
    assert [text for text, _ in below] == [
        "    lamp", "10/s", "1,500", "Lamp", '{"n": 11} (retained)', "hall +2", "attic +1", "25.0 %",
    ]  # fmt: skip
    assert [text for text, _ in plain] == ["  x", "", "3", "text", "y", "hall", "nobody", ""]
    assert (below[4][1], below[7][1]) == (spy_tree.FRESH, spy_tree.LOSSY)
    late = spy_tree.cells_of(tree.lines[1], watch, 3.0)
    assert late[4][1] == spy_tree.PLAIN
    tree.open(tree.lines[0], False)
    assert spy_tree.cells_of(tree.lines[0], watch, 2.5)[0][0] == "▸ home"
    for loss, style in ((0.02, spy_tree.LOSSY), (0.019, spy_tree.DIM), (0.0, spy_tree.DIM)):
        watch.losses.worst = lambda *_, loss=loss: loss
        cell = spy_tree.cells_of(tree.lines[1] if len(tree.lines) > 2 else tree.lines[-1], watch, 2.5)[7]
        assert cell[1] == style
    tree.root.children["home"].rate = 0.0
    assert spy_tree.cells_of(tree.root.children["home"], watch, 2.5)[1][0] == ""


def test_cells_have_the_widths_of_their_columns() -> None:
    cells = ["a/b", "10/s", "1,500", "json", "value", "hall", "nobody", "1 %"]
    row = spy_tree.fitted(cells, 120)
    assert [len(cell) for cell in row] == [33, 9, 9, 9, 27, 13, 13, 7]
    assert sum(map(len, row)) == 120
    assert (row[0], row[1], row[2], row[7]) == (f"{'a/b':32} ", f"{'10/s':>8} ", f"{'1,500':>8} ", f"{'1 %':>6} ")
    assert [len(cell) for cell in spy_tree.fitted(cells, 20)][4] == 13
    assert spy_tree.fitted(["x" * 32, "y" * 9, *cells[2:]], 120)[:2] == ["x" * 32 + " ", "y" * 7 + "… "]


def test_the_chosen_line_is_one_of_the_lines_whatever_is_shown() -> None:
    watch: Any = Watched()
    tree = Tree()
    for name in ("a", "b", "c"):
        tree.add(Topic(name))
    widget = spy_tree.TopicTree(watch, tree)
    a, b, c = tree.lines
    assert (widget.chosen, widget.node) == (0, a)
    widget.chosen = 7
    assert widget.node is c
    widget.chosen = 1
    for shows, kept, chosen in (
        ("", b, 1),
        ("", None, 1),
        ("", c, 2),
        ("c", b, 0),
        ("", a, 0),
        ("", c, 2),
        ("x", c, 0),
    ):
        tree.choose(shows)
        widget.keep(kept)
        assert (widget.chosen, widget.node) == (chosen, tree.lines[chosen] if tree.lines else None)


def test_a_list_of_topics_is_shortened_for_people() -> None:
    entry = {
        "topic": "t",
        "types": [],
        "codecs": ["c"],
        "publishers": list("abcd"),
        "subscribers": list("abc"),
        "rate": 2.25,
    }
    assert topic_list.shown(entry) == ["t", "c", "a, b, c, and 1 more", "a, b, c", "2.2"]
    assert topic_list.shown({**entry, "types": ["T"]})[1] == "T"
    long = topic_list.shown({**entry, "topic": "x" * 81, "publishers": ["p" * 41, "q" * 40]})
    assert (long[0], long[2]) == ("x" * 79 + "…", "p" * 39 + "…, " + "q" * 40)


def test_the_list_of_topics_is_made_at_the_end(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    waited: list[Any] = []
    watch: Any = Watched()
    watch.note_types = lambda: waited.append("types")
    watch.bus.left_out = 2
    monkeypatch.setattr(topic_list, "open_endpoint", lambda *_, **options: nullcontext("endpoint"))
    monkeypatch.setattr(topic_list, "Watch", noting(waited, watch))
    monkeypatch.setattr(common, "wait_for_end", lambda: waited.append("end"))
    monkeypatch.setattr(common, "until_ended", noting(waited, nullcontext()))
    monkeypatch.setattr(topic_list, "time", Time(2.0))
    assert topics.main(["--list"]) == topics.main(["--list", "--duration", "7"]) == 0
    assert waited[:4] == [("endpoint", "#", 0.5), 3.0, "end", "types"]
    assert waited[5] == 7.0
    assert capsys.readouterr().out.splitlines()[:4] == [
        "topic      type  publishers          subscribers    messages/s",
        "home/lamp  Lamp  hall, spare, third  attic, cellar  10.0",
        "x                hall                               0.0",
        "2 samples of further topics are left out",
    ]  # fmt: skip


def test_programs_get_the_list_with_rounded_numbers(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    watch, clock = Watched(), Time(0.0)
    watch.note_types = lambda: None  # type: ignore[attr-defined]
    third = Sample("x", "y", 12, "text", "hall", "h", 1, 8, 5.0)
    watch.bus.take(5.0, third)
    monkeypatch.setattr(topic_list, "open_endpoint", lambda *_, **options: nullcontext("endpoint"))
    monkeypatch.setattr(topic_list, "Watch", lambda *_: watch)
    monkeypatch.setattr(common, "wait_for_end", lambda: clock.sleep(5.00049))
    monkeypatch.setattr(topic_list, "time", clock)
    assert topics.main(["--list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["event"], told["seconds"]) == ("topics", 5.0)
    other = told["topics"][1]
    assert (other["topic"], other["rate"], other["bytes_rate"]) == ("x", 0.333, 1.4)
    fields = watching.topic_fields(watch.bus.topics["x"], watch, 5.0)  # type: ignore[arg-type]
    assert (fields["rate"], fields["bytes_rate"]) == (0.333, 1.4)
    watch.losses.worst = lambda *_: 0.123456  # type: ignore[method-assign]
    assert watching.topic_fields(watch.bus.topics["x"], watch, 5.0)["loss"] == 0.1235  # type: ignore[arg-type]
    watch.bus.topics.clear()
    watch.roles = Roles()
    watch.bus.left_out = 0
    assert topics.main(["--list"]) == 0
    assert capsys.readouterr().out == "no topics\n"


def test_lines_are_printed_until_the_end_and_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    watch: Any = Watched()
    looks: list[float] = []
    watch.look = lambda: looks.append(1)
    watch.bus.left_out = 1234
    monkeypatch.setattr(spy, "time", Time(2.0))
    monkeypatch.setattr(common, "paced", lambda rate, count: iter([rate, rate]))
    given = spy.parser().parse_args(["--filter", "lamp", "--every", "4"])
    lines = people(lambda output: spy.print_lines(watch, given, output)).splitlines()
    assert [line.split()[0] for line in lines] == ["home/lamp", "2"]
    assert lines[-1] == "2 topics in 3 samples; 1,234 samples of further topics are left out"
    assert len(looks) == 2
