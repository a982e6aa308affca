"""Topics as a tree of their levels, of which some are open, and the lines that a viewer sees.

The lines are made anew only when a topic came, a level was opened or closed, or the filter changed. Sums of a level are
made anew once for each refresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from glue.spying.bus import Topic
from glue.topics.index import Index
from glue.topics.names import is_wildcard

FEW: Final = 64
"""Levels below one that opens by itself; with more it stays closed until it is opened."""
DEEPEST: Final = 32
"""Levels of a topic that are told apart; what is below is one level, with its slashes."""


class Node:
    """One level: the topic that ends here, if any, and the levels below."""

    __slots__ = (
        "bytes_rate", "children", "depth", "is_open", "is_sorted", "level", "parent", "path", "rate", "topic", "topics",
    )  # fmt: skip

    def __init__(self, level: str, path: str, parent: Node | None, depth: int) -> None:
        self.level = level
        self.path = path
        self.parent = parent
        self.depth = depth
        self.topic: Topic | None = None
        self.children: dict[str, Node] = {}
        self.is_sorted = True
        self.is_open: bool | None = None  # None: as it seems fit
        self.topics = 0  # at and below this level
        self.rate = self.bytes_rate = 0.0  # sums, of the last refresh

    @property
    def opens(self) -> bool:
        """Whether the levels below are shown."""
        return len(self.children) <= FEW if self.is_open is None else self.is_open

    def sorted_children(self) -> Iterable[Node]:
        """The levels below, by name."""
        if not self.is_sorted:
            self.children = dict(sorted(self.children.items()))
            self.is_sorted = True
        return self.children.values()


class Tree:
    """The levels of all topics; `lines` are those that are shown."""

    def __init__(self) -> None:
        self.root = Node("", "", None, -1)
        self.filter = ""
        self._lines: list[Node] | None = None

    def add(self, topic: Topic) -> Node:
        """Add a topic."""
        node = self.root
        node.topics += 1
        levels = levels_of(topic.name)
        for place, level in enumerate(levels):
            below = node.children.get(level)
            if below is None:
                path = "/".join(levels[: place + 1])
                below = node.children[level] = Node(level, path, node, place)
                node.is_sorted = len(node.children) == 1
            node = below
            node.topics += 1
        node.topic = topic
        self._lines = None
        return node

    def find(self, path: str) -> Node | None:
        """The level with this path."""
        node: Node | None = self.root
        for level in levels_of(path):
            node = node.children.get(level) if node is not None else None
        return node

    def choose(self, text: str) -> None:
        """Show only topics with this text in their name, or that match it if it is a pattern with wildcards."""
        self.filter = text
        self._lines = None

    def open(self, node: Node, is_open: bool) -> None:
        """Open or close a level."""
        node.is_open = is_open
        self._lines = None

    @property
    def lines(self) -> list[Node]:
        """The levels that are shown, from top to bottom."""
        if self._lines is None:
            if self.filter:
                shows = fits(self.filter)
                shown: dict[Node, None] = {}
                for node in _all(self.root):
                    if node.topic is not None and shows(node.path):
                        shown.update(dict.fromkeys(reversed([*_ancestors(node)])))
                        shown[node] = None
                self._lines = list(shown)
            else:
                self._lines = [*_open(self.root)]
        return self._lines

    def refresh(self, now: float) -> None:
        """Sum the rates of all levels."""
        _sum(self.root, now)


def levels_of(name: str) -> list[str]:
    """Split a topic into its levels, of which the last may be several."""
    return name.split("/", DEEPEST - 1)


def fits(text: str) -> Callable[[str], bool]:
    """Return whether a topic has a text in its name, or matches it, if it is a pattern with wildcards."""
    if is_wildcard(text):
        index: Index[str] = Index()
        index.add(text, text)
        return lambda path: bool(index.find(path))
    wanted = text.casefold()
    return lambda path: wanted in path.casefold()


def _ancestors(node: Node) -> Iterator[Node]:
    above = node.parent
    while above is not None and above.parent is not None:
        yield above
        above = above.parent


def _all(node: Node) -> Iterator[Node]:
    for below in node.sorted_children():
        yield below
        if below.children:
            yield from _all(below)


def _open(node: Node) -> Iterator[Node]:
    for below in node.sorted_children():
        yield below
        if below.children and below.opens:
            yield from _open(below)


def _sum(node: Node, now: float) -> None:
    topic = node.topic
    rate = 0.0 if topic is None else topic.rate_at(now)
    size = 0.0 if topic is None else rate * topic.mean_size
    for below in node.children.values():
        _sum(below, now)
        rate += below.rate
        size += below.bytes_rate
    node.rate, node.bytes_rate = rate, size
