"""The screen of `glue spy`: topics as a tree, the chosen message in full, a plot of its numbers. Needs textual.

The tree draws only the lines that are on the screen, so ten thousand topics cost no more than fifty. The screen is
drawn anew twice a second.
"""

from __future__ import annotations

import time
from typing import ClassVar, Final

import orjson
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Footer, Input, Static

from glue.cmd import common
from glue.cmd.output import printable
from glue.cmd.spy_tree import COLUMNS, TopicTree, fitted
from glue.cmd.watching import Watch, value_of
from glue.errors import GlueError
from glue.spying.bus import Topic
from glue.spying.fields import numbers, value_lines
from glue.spying.plot import Series, number_text, plot, sparkline
from glue.spying.tree import Tree

DRAW_EVERY: Final = 0.5
"""Seconds between two pictures."""
KEPT_FIELDS: Final = 256
"""Numbers of a topic that are remembered."""
SERIES: Final = 64
"""Topics whose numbers are remembered after they were chosen, at some 100 kB each."""


class SpyApp(App[None]):
    """The application."""

    CSS = """
    #head { height: 1; color: $text-muted; }
    #columns { height: 1; text-style: bold; }
    #tree { height: 1fr; }
    #about { height: auto; max-height: 45%; border-top: solid $primary; padding: 0 1; display: none; overflow-y: auto; }
    #plot { height: auto; padding: 0 1; display: none; border-top: solid $primary; }
    Input { display: none; height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "Quit"),
        Binding("slash", "ask('filter')", "Filter"),
        Binding("m", "show_message", "Message"),
        Binding("p", "show_plot", "Plot"),
        Binding("n", "next_field", "Next number"),
        Binding("w", "ask('publish')", "Publish"),
        Binding("z", "freeze", "Freeze"),
        Binding("escape", "leave", show=False),
    ]
    TITLE = "glue spy"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, watch: Watch, filter: str = "") -> None:
        super().__init__()
        self.seen = watch
        self.tree_state = Tree()
        self.tree_state.choose(filter)
        self.is_frozen = False
        self.shows_message = self.shows_plot = False
        self.field = ""  # of the plot
        self.series: dict[str, dict[str, Series]] = {}  # of chosen topics, by topic and field
        self.asked = ""
        self._samples = 0
        self._looked_at = self._drawn_at = time.monotonic()

    def compose(self) -> ComposeResult:
        """Build the screen."""
        yield Static(id="head")
        yield Static("", id="columns")
        yield TopicTree(self.seen, self.tree_state)
        yield Vertical(Static(id="text", markup=False), id="about")
        yield Static(id="plot", markup=False)
        yield Input(id="asking")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to draw."""
        self.query_one(TopicTree).focus()
        self.set_interval(DRAW_EVERY, self.draw)
        self.draw()

    # ---------------------------------------------------------------------------------------------- pictures

    def draw(self) -> None:
        """Draw what has changed; end when the command should end."""
        if common.is_ending():
            self.exit()
            return
        if not self.query(TopicTree):  # the screen is taken down
            return
        now = time.monotonic()
        if now - self._looked_at >= 1:
            self._looked_at = now
            self.seen.look()
        tree = self.query_one(TopicTree)
        with self.seen.lock:
            fresh = self.seen.bus.take_fresh()
        if self.is_frozen:
            for topic in fresh:
                self.tree_state.add(topic)
            return
        node = tree.node
        for topic in fresh:
            self.tree_state.add(topic)
        if fresh:
            tree.keep(node)
        with self.seen.lock:
            self.tree_state.refresh(now)
        self._draw_head(now)
        self._note_numbers()
        tree.measure()
        self.show_chosen()

    def _draw_head(self, now: float) -> None:
        bus = self.seen.bus
        elapsed = max(now - self._drawn_at, 0.001)
        samples, self._samples, self._drawn_at = bus.samples - self._samples, bus.samples, now
        root = self.tree_state.root
        endpoint = self.seen.endpoint
        text = (
            f"{endpoint.name}  {self.seen.pattern}  {len(bus.topics):,} topics  {len(endpoint.peers)} peers  "
            f"{number_text(root.rate)} messages/s  {number_text(root.bytes_rate)} B/s  "
            f"{number_text(samples / elapsed)} samples/s"
        )
        if bus.left_out:
            text += f"  {bus.left_out:,} samples left out"
        if self.tree_state.filter:
            text += f"  filter: {printable(self.tree_state.filter, 40)}"
        if self.is_frozen:
            text += "  frozen"
        self.query_one("#head", Static).update(printable(text, 400).replace("[", "\\["))
        width = self.query_one(TopicTree).size.width
        self.query_one("#columns", Static).update("".join(fitted([name for name, _ in COLUMNS], width)))

    def _note_numbers(self) -> None:
        """Remember the numbers of the chosen topics."""
        topic = self.chosen_topic
        if topic is not None and topic.name not in self.series:
            while len(self.series) >= SERIES:
                del self.series[next(iter(self.series))]
            self.series[topic.name] = {}
        for name, fields in self.series.items():
            known = self.seen.bus.topics.get(name)
            if known is not None:
                for path, number in numbers(value_of(known)).items():
                    fields.setdefault(path, Series()).add(known.received_at, number)
                while len(fields) > KEPT_FIELDS:  # a topic with other fields in each message
                    del fields[min(fields, key=lambda path: fields[path].points[-1][0])]

    @property
    def chosen_topic(self) -> Topic | None:
        """The topic of the chosen line."""
        node = self.query_one(TopicTree).node
        return None if node is None else node.topic

    def show_chosen(self) -> None:
        """Draw the message and the plot of the chosen topic."""
        topic = self.chosen_topic
        about, drawn = self.query_one("#about"), self.query_one("#plot", Static)
        about.display = self.shows_message and topic is not None
        drawn.display = self.shows_plot and topic is not None
        if topic is None:
            return
        if self.shows_message:
            self.query_one("#text", Static).update("\n".join(self._message_lines(topic)))
        if self.shows_plot:
            drawn.update("\n".join(self._plot_lines(topic)))

    def on_topic_tree_chosen(self) -> None:
        """Show the topic that was chosen."""
        self._note_numbers()
        self.show_chosen()

    def _message_lines(self, topic: Topic) -> list[str]:
        value = value_of(topic)
        sources = [f"{printable(one.name, 24)} #{one.sequence}" for one in topic.sources.values()]
        head = f"{printable(topic.name, 200)}  {topic.size:,} bytes  {', '.join(sources)}"
        lines = [printable(line, 400) for line in value_lines(value)]
        length = len(topic.payload) if isinstance(topic.payload, bytes) else topic.size
        if length < topic.size:
            lines.append(f"... the first {length} of {topic.size:,} bytes; subscribe to the topic to get all")
        return [head, *lines]

    def _plot_lines(self, topic: Topic) -> list[str]:
        fields = self.series.get(topic.name, {})
        if not fields:
            return [f"{printable(topic.name)}: no numbers to plot"]
        if self.field not in fields:
            self.field = next(iter(fields))
        series = fields[self.field]
        others = [
            f"{printable(path or 'value', 20)} {sparkline(one.values, 12)}"
            for path, one in [*fields.items()][:6]
            if path != self.field
        ]
        last = number_text(series.values[-1])
        head = f"{printable(topic.name, 60)} {printable(self.field or 'value', 40)} = {last}   {'  '.join(others)}"
        return [head, *plot([*series.points], max(self.size.width - 4, 10), 8)]

    # ----------------------------------------------------------------------------------------------- actions

    def action_show_message(self) -> None:
        """Show or hide the whole message."""
        self.shows_message = not self.shows_message
        self.show_chosen()

    def action_show_plot(self) -> None:
        """Show or hide the plot."""
        self.shows_plot = not self.shows_plot
        self._note_numbers()
        self.show_chosen()

    def action_next_field(self) -> None:
        """Plot the next number of the message."""
        topic = self.chosen_topic
        fields = [*self.series.get(topic.name, {})] if topic is not None else []
        if fields:
            place = fields.index(self.field) + 1 if self.field in fields else 0
            self.field = fields[place % len(fields)]
            self.show_chosen()

    def action_freeze(self) -> None:
        """Stop the picture, or let it go on."""
        self.is_frozen = not self.is_frozen
        self._draw_head(time.monotonic())

    def action_ask(self, what: str) -> None:
        """Ask for a filter, or for what to publish."""
        asking = self.query_one("#asking", Input)
        self.asked = what
        topic = self.chosen_topic
        if what == "filter":
            asking.value = self.tree_state.filter
            asking.placeholder = "text in the topic, or a pattern such as home/+/lamp; empty: all"
        else:
            asking.value = f"{topic.name} " if topic is not None else ""
            asking.placeholder = "TOPIC PAYLOAD: JSON, else text; Enter publishes"
        asking.display = True
        asking.focus()

    def action_leave(self) -> None:
        """Leave the question."""
        self.query_one("#asking", Input).display = False
        self.query_one(TopicTree).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the answer."""
        if self.asked == "filter":
            self.tree_state.choose(event.value.strip())
            self.query_one(TopicTree).chosen = 0
        elif event.value.strip():
            self._publish(event.value.strip())
        self.action_leave()
        self.draw()

    def _publish(self, line: str) -> None:
        topic, _, text = line.partition(" ")
        try:
            payload = orjson.loads(text)
        except orjson.JSONDecodeError:
            payload = text
        try:
            self.seen.endpoint.publish(topic, payload, block=False)
        except GlueError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            reached = len(self.seen.endpoint.subscribers(topic))
            self.notify(f"published to {reached} subscribers", markup=False)
