"""The tree of topics: which lines are shown, sums of levels, filters."""

from __future__ import annotations

from glue.spying.bus import Bus, Sample
from glue.spying.tree import DEEPEST, FEW, Tree


def bus_of(*names: str) -> Bus:
    bus = Bus()
    for name in names:
        for sequence in (1, 11):
            at = float(sequence // 10)
            bus.take(at, Sample(name, 1, 5, "json", "kitchen", "k", 1, sequence, at))
    return bus


def tree_of(bus: Bus) -> Tree:
    tree = Tree()
    for topic in bus.take_fresh():
        tree.add(topic)
    return tree


def paths(tree: Tree) -> list[str]:
    return [node.path for node in tree.lines]


def test_levels_are_sorted_and_a_level_may_be_a_topic_and_have_others_below() -> None:
    tree = tree_of(bus_of("home/b", "home", "attic/x", "home/a"))
    assert paths(tree) == ["attic", "attic/x", "home", "home/a", "home/b"]
    home = tree.find("home")
    assert home is not None and home.topic is not None  # noqa: PT018
    assert home.topics == 3
    assert tree.find("home/c/d") is None


def test_a_topic_with_very_many_levels_is_shown_with_its_last_ones_as_one() -> None:
    deep = "deep" + "/x" * 30_000
    tree = tree_of(bus_of(deep, deep + "y", "deep/x"))
    tree.refresh(1.0)
    tree.open(tree.root.children["deep"], True)
    assert paths(tree)[0] == "deep"
    assert paths(tree)[-2:] == [deep, deep + "y"]
    assert len(tree.lines) == DEEPEST + 1
    assert (found := tree.find(deep)) is not None and found.topic is not None  # noqa: PT018
    tree.choose("deep/#")
    assert [node.path for node in tree.lines if node.topic is not None] == ["deep/x", deep, deep + "y"]


def test_levels_open_and_close() -> None:
    tree = tree_of(bus_of("home/a", "home/b", "x"))
    home = tree.find("home")
    assert home is not None
    tree.open(home, False)
    assert paths(tree) == ["home", "x"]
    tree.open(home, True)
    assert paths(tree) == ["home", "home/a", "home/b", "x"]


def test_a_level_with_many_below_stays_closed_until_it_is_opened() -> None:
    tree = tree_of(bus_of(*[f"t/{number}" for number in range(FEW + 1)]))
    assert paths(tree) == ["t"]
    node = tree.find("t")
    assert node is not None
    tree.open(node, True)
    assert len(tree.lines) == FEW + 2


def test_a_filter_is_a_text_or_a_pattern() -> None:
    tree = tree_of(bus_of("home/hall/lamp", "home/hall/door", "attic/lamp"))
    tree.choose("LAMP")
    assert paths(tree) == ["attic", "attic/lamp", "home", "home/hall", "home/hall/lamp"]
    tree.choose("home/+/door")
    assert paths(tree) == ["home", "home/hall", "home/hall/door"]
    tree.choose("nothing")
    assert paths(tree) == []
    tree.choose("")
    assert len(paths(tree)) == 6


def test_sums_of_levels() -> None:
    tree = tree_of(bus_of("home/a", "home/b", "x"))
    tree.refresh(1.0)
    home = tree.find("home")
    assert home is not None
    assert (home.rate, home.bytes_rate, tree.root.rate) == (20.0, 100.0, 30.0)


def test_a_level_knows_its_place_and_opens_as_it_seems_fit() -> None:
    tree = tree_of(bus_of(*[f"t/{number:02}" for number in range(FEW)], "t/00/x", "u"))
    t, x = tree.find("t"), tree.find("t/00/x")
    assert t is not None
    assert x is not None
    assert (t.depth, x.depth, x.level, x.path, x.topics, t.topics) == (0, 2, "x", "t/00/x", 1, FEW + 1)
    assert (x.parent, t.parent, tree.root.topics) == (tree.find("t/00"), tree.root, FEW + 2)
    opens = [t.opens]
    assert tree.find("t/99") is None
    assert [node.path for node in t.sorted_children()][:2] == ["t/00", "t/01"]
    tree.add(bus_of("t/zz").take_fresh()[0])
    assert [*opens, t.opens] == [True, False]
    t.is_open = True
    tree.add(bus_of("t/0").take_fresh()[0])
    assert next(iter(t.sorted_children())).path == "t/0"


def test_lines_are_made_anew_when_a_topic_came() -> None:
    tree = tree_of(bus_of("b"))
    assert paths(tree) == ["b"]
    lines = tree.lines
    assert tree.lines is lines
    tree.add(bus_of("a").take_fresh()[0])
    assert paths(tree) == ["a", "b"]
    tree.refresh(0.0)
    assert [(node.rate, node.bytes_rate) for node in tree.lines] == [(10.0, 50.0)] * 2
