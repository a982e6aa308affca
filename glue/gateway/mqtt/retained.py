"""The retained messages of a broker: the last of each topic, in a tree of levels that topic filters walk."""

from __future__ import annotations

from collections.abc import Iterator

from glue.gateway.mqtt.packets import Publish


class _Level:
    __slots__ = ("children", "message")

    def __init__(self) -> None:
        self.children: dict[str, _Level] = {}
        self.message: Publish | None = None


class Retained:
    """At most `limit` messages."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._root = _Level()

    def __len__(self) -> int:
        return self._count

    def put(self, message: Publish) -> bool:
        """Keep a message as the last of its topic; an empty payload clears it. Returns whether there was room."""
        if not message.payloads[-1]:
            self._clear(message.topic)
            return True
        level = self._root
        if self._count >= self._limit and self.get(message.topic) is None:
            return False
        for name in message.topic.split("/"):
            level = level.children.setdefault(name, _Level())
        self._count += level.message is None
        level.message = message
        return True

    def get(self, topic: str) -> Publish | None:
        """The message of a topic."""
        level = self._root
        for name in topic.split("/"):
            found = level.children.get(name)
            if found is None:
                return None
            level = found
        return level.message

    def _clear(self, topic: str) -> None:
        names = topic.split("/")
        path = [self._root]
        for name in names:
            found = path[-1].children.get(name)
            if found is None:
                return
            path.append(found)
        self._count -= path[-1].message is not None
        path[-1].message = None
        while names and path[-1].message is None and not path.pop().children:
            del path[-1].children[names.pop()]

    def find(self, topic_filter: str) -> Iterator[Publish]:
        """The messages on topics that match a well-formed filter; the tree must not change meanwhile."""
        levels = topic_filter.split("/")
        nodes = [self._root]
        for number, level in enumerate(levels):
            if level == "#":
                for node in nodes:
                    yield from _below(node, hides_system=number == 0)
                return
            following = []
            for node in nodes:
                if level != "+":
                    found = node.children.get(level)
                    following += [] if found is None else [found]
                else:
                    following += [child for name, child in node.children.items() if number or not name.startswith("$")]
            nodes = following
        for node in nodes:
            if node.message is not None:
                yield node.message

    def __iter__(self) -> Iterator[Publish]:
        yield from _below(self._root, hides_system=False)


def _below(node: _Level, hides_system: bool) -> Iterator[Publish]:
    """All messages from a node down. Wildcards at the first level do not match topics that start with `$` (4.7.2)."""
    waiting = [node]
    while waiting:
        level = waiting.pop()
        if level.message is not None:
            yield level.message
        children = level.children.items()
        waiting += [child for name, child in children if not (hides_system and level is node and name[:1] == "$")]
