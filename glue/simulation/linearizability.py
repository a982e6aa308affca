"""Checker of linearizability: does one order of the operations explain every answer?

In the order, each operation takes effect between its call and its return. The algorithm is from Wing and Gong (1993),
as improved by Lowe ("Testing for linearizability", 2017). It tries each operation that can come first, and undoes
failed attempts. It never tries the same pair of placed operations and state twice. Each key is checked
alone, because a history is linearizable if and only if each object's history is (Herlihy and Wing 1990, locality).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from math import inf
from typing import Any

READ, WRITE, COMPARE_AND_SET, ADD = "read", "write", "compare and set", "add"
"""Operations on a register. A read returns the value, compare-and-set whether it was done, the others None."""

NOTHING: Hashable = None
"""The value of a key that has not been set."""


class Operation:
    """One call of a client to a key, from `called` to `returned`, in seconds of a clock that all clients share.

    If the outcome is unknown, `returned` is infinite and `answer` has no meaning. An operation that certainly had no
    effect is not part of a history.
    """

    __slots__ = ("answer", "arguments", "called", "client", "key", "kind", "returned")

    def __init__(
        self,
        client: str,
        key: str,
        kind: str,
        arguments: Sequence[Any],
        called: float,
        returned: float = inf,
        answer: Hashable = None,
    ) -> None:
        self.client = client
        self.key = key
        self.kind = kind
        self.arguments = tuple(arguments)
        self.called = called
        self.returned = returned
        self.answer = answer

    @property
    def is_unknown(self) -> bool:
        """Whether the client never learned the outcome."""
        return self.returned == inf

    def __repr__(self) -> str:
        given = ", ".join(map(repr, self.arguments))
        what = "?" if self.is_unknown else repr(self.answer)
        return f"<{self.client}: {self.kind}({given}) of {self.key} → {what}, {self.called:.6f} to {self.returned:.6f}>"


def step(operation: Operation, value: Any) -> tuple[bool, Any]:
    """Return whether a register with this value can give the operation's answer, and the value afterwards."""
    kind, arguments = operation.kind, operation.arguments
    if kind == READ:
        return operation.is_unknown or operation.answer == value, value
    if kind == WRITE:
        return True, arguments[0]
    if kind == ADD:
        return True, (value or 0) + arguments[0]
    expected, new = arguments
    done = value == expected
    return operation.is_unknown or operation.answer == done, new if done else value


class Verdict:
    """Outcome of a check: `linearizable`, or the key and the operations of the shortest wrong prefix."""

    __slots__ = ("key", "operations")

    def __init__(self, key: str | None = None, operations: Sequence[Operation] = ()) -> None:
        self.key = key
        self.operations = operations

    @property
    def linearizable(self) -> bool:
        """Whether an order exists for every key."""
        return self.key is None

    def __repr__(self) -> str:
        if self.linearizable:
            return "<Verdict: linearizable>"
        lines = "\n  ".join(map(repr, sorted(self.operations, key=lambda operation: operation.called)))
        return f"<Verdict: {self.key} is not linearizable:\n  {lines}>"


def check(history: Iterable[Operation], initial: Hashable = NOTHING) -> Verdict:
    """Check a whole history, key by key. Each key starts with the value `initial`."""
    by_key: dict[str, list[Operation]] = defaultdict(list)
    for operation in history:
        by_key[operation.key].append(operation)
    for key, operations in by_key.items():
        if not is_linearizable(operations, initial):
            return Verdict(key, shortest_wrong_prefix(operations, initial))
    return Verdict()


def shortest_wrong_prefix(operations: Sequence[Operation], initial: Hashable) -> Sequence[Operation]:
    """Return the operations called up to the first return that no order explains."""
    returns = sorted(operation.returned for operation in operations if not operation.is_unknown)
    low, high = 0, len(returns) - 1
    while low < high:
        middle = (low + high) // 2
        if is_linearizable(_until(operations, returns[middle]), initial):
            low = middle + 1
        else:
            high = middle
    return [operation for operation in operations if operation.called <= returns[low]]


def _until(operations: Sequence[Operation], time: float) -> list[Operation]:
    """Return the operations called until `time`. Operations that return later become unknown."""
    return [
        o if o.returned <= time else Operation(o.client, o.key, o.kind, o.arguments, o.called)
        for o in operations
        if o.called <= time
    ]


class _Event:
    """A call or a return in a doubly linked list of events, where placing and undoing cost O(1)."""

    __slots__ = ("after", "before", "match", "number")

    def __init__(self, number: int, match: _Event | None) -> None:
        self.number = number
        self.match = match  # the return of a call; None for a return
        self.before: _Event = self
        self.after: _Event | None = None

    def lift(self) -> None:
        """Remove a call and its return from the list."""
        for event in (self, self.match):
            assert event is not None
            event.before.after = event.after
            if event.after is not None:
                event.after.before = event.before

    def unlift(self) -> None:
        """Undo `lift`."""
        for event in (self.match, self):
            assert event is not None
            event.before.after = event
            if event.after is not None:
                event.after.before = event


def is_linearizable(operations: Sequence[Operation], initial: Hashable = NOTHING) -> bool:
    """Tell whether the operations on one key have a legal order.

    The cost is exponential only where many operations overlap and disagree. Unknown operations cause most of it.
    Therefore the first attempt leaves out the unknown operations that no answer can depend on, as if they had never
    happened. If this attempt finds no order, the second attempt includes all, because an unknown operation may explain
    a failed comparison.
    """
    needed = [operation for operation in operations if not operation.is_unknown or _was_seen(operation, operations)]
    if _has_order(needed, initial):
        return True
    return len(needed) < len(operations) and _has_order(operations, initial)


def _was_seen(unknown: Operation, operations: Sequence[Operation]) -> bool:
    """Tell whether an answer may depend on the effect of this unknown operation."""
    if unknown.kind == ADD:
        return True
    if unknown.kind == READ:
        return False
    value = unknown.arguments[-1]
    return any(
        operation is not unknown and (operation.kind == ADD or value in (operation.answer, *operation.arguments[:-1]))
        for operation in operations
    )


def _has_order(operations: Sequence[Operation], initial: Hashable) -> bool:
    head = _events(operations)
    event = head.after
    value: Any = initial
    placed = 0  # one bit for each operation
    tried: set[tuple[int, Hashable]] = set()
    path: list[tuple[_Event, Any]] = []
    waiting = sum(not operation.is_unknown for operation in operations)
    while waiting:
        assert event is not None
        if event.match is not None:  # a call: could it come next?
            possible, after = step(operations[event.number], value)
            mark = (placed | 1 << event.number, after)
            if possible and mark not in tried:
                tried.add(mark)
                path.append((event, value))
                placed, value = mark
                waiting -= not operations[event.number].is_unknown
                event.lift()
                event = head.after
            else:
                event = event.after
        else:  # the return of a call that is not placed, so an earlier choice was wrong
            if not path:
                return False
            undone, value = path.pop()
            placed &= ~(1 << undone.number)
            waiting += not operations[undone.number].is_unknown
            undone.unlift()
            event = undone.after
    return True


def _events(operations: Sequence[Operation]) -> _Event:
    """Return the head of a list of all calls and returns in order of time. At equal times calls come first."""
    timed: list[tuple[float, int, int, _Event]] = []
    for number, operation in enumerate(operations):
        returned = _Event(number, None)
        timed.append((operation.returned, 1, number, returned))
        timed.append((operation.called, 0, number, _Event(number, returned)))
    head = last = _Event(-1, None)
    for *_, event in sorted(timed, key=lambda item: item[:3]):
        last.after = event
        event.before = last
        last = event
    return head
