"""Who holds a pattern that matches this topic? Subscriptions of this endpoint and interests of its peers alike.

Patterns without a wildcard are looked up as they are; the others stand in a tree of levels, of which a topic
visits only the branches that can match. So the cost depends on the topic's depth, not on how many patterns or
topics there are. Results are remembered per topic until any pattern changes.

The rules are those of MQTT 3.1.1, section 4.7: `#` matches the parent level, too, and a topic that starts with
`$` is not matched by a wildcard at the first level.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from glue.topics.names import is_wildcard
from glue.topics.recent import GenerationalCache

Holder = TypeVar("Holder", bound=Hashable)
Holders = dict[Holder, None]  # a set that keeps its order, so that runs repeat exactly

CACHED_TOPICS = 32_768
CACHED_LENGTH = 256
"""Results are remembered for 65,536 topics (two generations) of up to 256 characters: 30 MB of usual ones, 80 MB of
the widest. Longer ones, which a peer could send to fill the memory, are looked up each time."""


class TopicNode(Generic[Holder]):
    """A level in the tree: what follows it, who ends here, and who takes everything from here on (`#`)."""

    __slots__ = ("children", "ending", "everything")

    def __init__(self) -> None:
        self.children: dict[str, TopicNode[Holder]] = {}
        self.ending: Holders[Holder] = {}
        self.everything: Holders[Holder] = {}

    def is_empty(self) -> bool:
        return not (self.children or self.ending or self.everything)


class Changes:
    """How often anything changed that decides where messages go: patterns, and who the peers are.

    What was found out since is kept in `found`, which each change empties: nothing there outlives a subscription.
    """

    __slots__ = ("count", "found")

    def __init__(self) -> None:
        self.count = 0
        self.found: dict[Any, Any] = {}

    def note(self) -> None:
        """Something changed."""
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
        """`holder` holds a well-formed pattern; once or several times is the same."""
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
        """The same, in no order that matters and not remembered."""
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
