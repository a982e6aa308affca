"""An index of patterns: finds the holders (own subscriptions or peers) of all patterns that match a topic.

Patterns without a wildcard are in a dictionary. Patterns with wildcards are in a tree of levels. A lookup visits only
branches that can match, and does not scan all patterns. Results are cached per topic until any pattern changes.

The rules are those of MQTT 3.1.1, section 4.7: `#` also matches the parent level. A wildcard at the first level does
not match a topic that starts with `$`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from glue.topics.names import is_wildcard
from glue.topics.recent import GenerationalCache

Holder = TypeVar("Holder", bound=Hashable)
Holders = dict[Holder, None]  # an ordered set, for reproducible runs

CACHED_TOPICS = 32_768
CACHED_LENGTH = 256
"""Results are remembered for 65,536 topics (two generations) of up to 256 characters: 30 MB of usual ones, 80 MB of
the widest. Longer ones, which a peer could send to fill the memory, are looked up each time."""


class TopicNode(Generic[Holder]):
    """A level in the tree: its children, and the holders of patterns that end here or end here with `#`."""

    __slots__ = ("children", "ending", "everything")

    def __init__(self) -> None:
        self.children: dict[str, TopicNode[Holder]] = {}
        self.ending: Holders[Holder] = {}
        self.everything: Holders[Holder] = {}

    def is_empty(self) -> bool:
        return not (self.children or self.ending or self.everything)


class Changes:
    """A counter of changes to the routes of messages: to patterns and to the set of peers.

    `found` caches results until the next change.
    """

    __slots__ = ("count", "found")

    def __init__(self) -> None:
        self.count = 0
        self.found: dict[Any, Any] = {}

    def note(self) -> None:
        """Count a change and clear `found`."""
        self.count += 1
        self.found.clear()


class Index(Generic[Holder]):
    """Patterns and their holders. `key` orders the holders in a result; by default their own order does."""

    __slots__ = ("_cache", "_changes", "_exact", "_key", "_root")

    def __init__(self, key: Callable[[Holder], Any] | None = None, changes: Changes | None = None) -> None:
        """`changes` is told of each change to a pattern."""
        self._changes = changes or Changes()
        self._key = key
        self._exact: dict[str, Holders[Holder]] = {}
        self._root: TopicNode[Holder] = TopicNode()
        self._cache: GenerationalCache[str, tuple[Holder, ...]] = GenerationalCache(CACHED_TOPICS)

    def add(self, pattern: str, holder: Holder) -> None:
        """Add a well-formed pattern of `holder`; adding it again has no effect."""
        self._changed()
        if not is_wildcard(pattern):
            self._exact.setdefault(pattern, {})[holder] = None
            return
        node = self._root
        levels, open_end = _levels(pattern)
        for level in levels:
            node = node.children.setdefault(level, TopicNode())
        (node.everything if open_end else node.ending)[holder] = None

    def remove(self, pattern: str, holder: Holder) -> None:
        """Undo `add` of this very pattern and holder."""
        self._changed()
        if not is_wildcard(pattern):
            del self._exact[pattern][holder]
            if not self._exact[pattern]:
                del self._exact[pattern]
            return
        levels, open_end = _levels(pattern)
        path = [self._root]
        for level in levels:
            path.append(path[-1].children[level])
        del (path[-1].everything if open_end else path[-1].ending)[holder]
        while levels and path.pop().is_empty():
            del path[-1].children[levels.pop()]

    def _changed(self) -> None:
        self._changes.note()
        self._cache.clear()

    def match(self, topic: str) -> tuple[Holder, ...]:
        """Holders of patterns that match a well-formed topic, each once, in order; remembered."""
        found = self._cache.get(topic)
        if found is None:
            found = tuple(sorted(self.find(topic), key=self._key))  # type: ignore[type-var, arg-type]
            if len(topic) <= CACHED_LENGTH:
                self._cache.put(topic, found)
        return found

    def find(self, topic: str) -> Holders[Holder]:
        """Holders of patterns that match a well-formed topic, in no particular order; not cached."""
        found: Holders[Holder] = dict(self._exact.get(topic, ()))
        levels = topic.split("/")
        nodes = [self._root]
        wildcards = not topic.startswith("$")  # not at the first level of such a topic
        for level in levels:
            following = []
            for node in nodes:
                if wildcards:
                    found.update(node.everything)
                    if "+" in node.children:
                        following.append(node.children["+"])
                if level in node.children:
                    following.append(node.children[level])
            nodes = following
            if not nodes:
                break
            wildcards = True
        for node in nodes:
            found.update(node.ending)
            found.update(node.everything)  # "sport/#" matches "sport"
        return found


def _levels(pattern: str) -> tuple[list[str], bool]:
    """The levels of a pattern, without a last `#`, and whether there was one."""
    levels = pattern.split("/")
    if levels[-1] == "#":
        return levels[:-1], True
    return levels, False
