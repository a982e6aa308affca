"""The tree of topics on the screen of `glue spy`. It draws only the lines that are on the screen."""

from __future__ import annotations

import time
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from glue.cmd.facts import percent
from glue.cmd.output import printable
from glue.cmd.watching import Watch, publishers_of, shown_value, some
from glue.spying.plot import number_text
from glue.spying.tree import Node, Tree

JUST_NOW: Final = 1.0
"""Seconds for which a value counts as new."""
MUCH: Final = 0.02
"""Loss that is marked."""
COLUMNS: Final = (
    ("TOPIC", 32),
    ("RATE", 8),
    ("SIZE", 8),
    ("TYPE", 8),
    ("VALUE", 0),
    ("FROM", 12),
    ("TO", 12),
    ("LOSS", 6),
)
"""Columns and their widths; 0: what is left."""

PLAIN, DIM, BOLD, CHOSEN = Style(), Style(dim=True), Style(bold=True), Style(reverse=True)
FRESH, LOSSY = Style(color="green"), Style(color="red", bold=True)


class TopicTree(ScrollView, can_focus=True):
    """The tree; `chosen` is the number of the line that is chosen."""

    class Chosen(Message):
        """Another line was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "move(-20)", show=False),
        Binding("pagedown", "move(20)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
        Binding("right", "open(True)", show=False),
        Binding("left", "open(False)", show=False),
        Binding("enter,space", "turn", "Open/close"),
    ]

    def __init__(self, watch: Watch, tree: Tree) -> None:
        super().__init__(id="tree")
        self.seen = watch
        self.topics = tree
        self.chosen = 0

    @property
    def node(self) -> Node | None:
        """The chosen level."""
        lines = self.topics.lines
        return lines[min(self.chosen, len(lines) - 1)] if lines else None

    def measure(self) -> None:
        """Take the number of lines, and draw."""
        self.virtual_size = Size(self.size.width, len(self.topics.lines))
        self.refresh()

    def keep(self, node: Node | None) -> None:
        """Stay on a level though lines came or went."""
        lines = self.topics.lines
        if node is not None and self.node is not node:
            self.chosen = lines.index(node) if node in lines else min(self.chosen, max(len(lines) - 1, 0))

    def action_move(self, lines: int) -> None:
        """Go up or down."""
        self.chosen = max(0, min(self.chosen + lines, len(self.topics.lines) - 1))
        top, height = self.scroll_offset.y, max(self.scrollable_content_region.height, 1)
        if not top <= self.chosen < top + height:
            self.scroll_to(y=self.chosen if self.chosen < top else self.chosen - height + 1, animate=False)
        self.measure()
        self.post_message(self.Chosen())

    def action_open(self, is_open: bool) -> None:
        """Open the chosen level; close it, or go to the level above."""
        node = self.node
        if node is None:
            return
        if node.children and node.opens is not is_open:
            self.topics.open(node, is_open)
        elif not is_open and node.parent is not None and node.parent in self.topics.lines:
            self.chosen = self.topics.lines.index(node.parent)
        self.action_move(0)

    def action_turn(self) -> None:
        """Open or close the chosen level."""
        node = self.node
        if node is not None and node.children:
            self.action_open(not node.opens)

    def on_click(self, event: events.Click) -> None:
        """Choose a line."""
        self.chosen = min(self.scroll_offset.y + event.y, max(len(self.topics.lines) - 1, 0))
        self.action_move(0)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        lines, place = self.topics.lines, self.scroll_offset.y + y
        width = self.size.width
        if place >= len(lines):
            return Strip.blank(width)
        with self.seen.lock:
            cells = cells_of(lines[place], self.seen, time.monotonic())
        style = CHOSEN if place == self.chosen else PLAIN
        segments = [
            Segment(text, own + style)
            for text, own in zip(fitted([c[0] for c in cells], width), [c[1] for c in cells], strict=True)
        ]
        return Strip(segments).adjust_cell_length(width, style)


def fitted(cells: list[str], width: int) -> list[str]:
    """Cells with the widths of their columns; the value takes what is left, and names go first where it is narrow."""
    fixed = sum(size + 1 for _, size in COLUMNS)
    rest = max(width - fixed, 12)
    found = []
    for text, (name, size) in zip(cells, COLUMNS, strict=True):
        size = size or rest
        cut = text if len(text) <= size else text[: size - 1] + "…"
        found.append((f"{cut:>{size}}" if name in ("RATE", "SIZE", "LOSS") else f"{cut:{size}}") + " ")
    return found


def cells_of(node: Node, watch: Watch, now: float) -> list[tuple[str, Style]]:
    """The cells of a line, and their styles."""
    topic = node.topic
    sign = ("▾ " if node.opens else "▸ ") if node.children else "  "
    name = "  " * node.depth + sign + printable(node.level or "''")
    if topic is None:
        rate = f"{number_text(node.rate)}/s" if node.rate else ""
        about = f"{node.topics:,} {'topic' if node.topics == 1 else 'topics'}, {number_text(node.bytes_rate)} B/s"
        return [(name, BOLD), (rate, DIM), ("", DIM), ("", DIM), (about, DIM), ("", DIM), ("", DIM), ("", DIM)]
    rate = f"{number_text(topic.rate_at(now))}/s" if topic.is_rate_known else ""
    publishers, subscribers = publishers_of(topic, watch.roles), watch.roles.names(topic.name, "subscriber")
    loss = watch.losses.worst(publishers, subscribers)
    value = shown_value(topic, 200) + (" (retained)" if topic.retained else "")
    return [
        (name, PLAIN),
        (rate, PLAIN),
        (f"{topic.size:,}", DIM),
        (printable(watch.roles.type_of(topic.name) or topic.type, 24), DIM),
        (value, FRESH if now - topic.received_at < JUST_NOW else PLAIN),
        (some(publishers, 1), DIM),
        (some(subscribers, 1) or "nobody", DIM),
        ("" if loss is None else percent(loss), LOSSY if loss and loss >= MUCH else DIM),
    ]
