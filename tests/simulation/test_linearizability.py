"""The linearizability checker: against one that tries all orders, and on histories with planted violations."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import permutations
from math import inf
from random import Random
from typing import Any

import pytest

from glue.simulation.linearizability import ADD, COMPARE_AND_SET, READ, WRITE, Operation, check, is_linearizable, step


def by_brute_force(operations: list[Operation], initial: Hashable = None) -> bool:
    """Try every order of every subset of the unknown operations together with all the others."""
    certain = [operation for operation in operations if not operation.is_unknown]
    unknown = [operation for operation in operations if operation.is_unknown]
    for chosen in range(1 << len(unknown)):
        some = certain + [operation for bit, operation in enumerate(unknown) if chosen >> bit & 1]
        if any(is_legal(order, initial) for order in permutations(some)):
            return True
    return False


def is_legal(order: tuple[Operation, ...], value: Any) -> bool:
    for position, operation in enumerate(order):
        if any(later.returned < operation.called for later in order[position + 1 :]):
            return False
        possible, value = step(operation, value)
        if not possible:
            return False
    return True


def random_operation(random: Random, client: str) -> Operation:
    kind = random.choice([READ, WRITE, COMPARE_AND_SET, ADD])
    arguments: dict[str, list[Hashable]] = {READ: [], WRITE: [1], COMPARE_AND_SET: [1, 2], ADD: [1]}
    answers: dict[str, list[Hashable]] = {READ: [None, 1, 2], COMPARE_AND_SET: [True, False]}
    called = random.random()
    returned = inf if random.random() < 0.15 else called + random.random() / 2
    return Operation(client, "k", kind, arguments[kind], called, returned, random.choice(answers.get(kind, [None])))


@pytest.mark.parametrize("seed", range(20))
def test_it_agrees_with_trying_every_order(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        operations = [random_operation(random, str(number)) for number in range(random.randrange(1, 7))]
        assert is_linearizable(operations) == by_brute_force(operations), operations


def test_the_random_histories_are_of_both_kinds() -> None:
    random = Random(1)
    histories = [[random_operation(random, str(n)) for n in range(4)] for _ in range(200)]
    assert 20 < sum(map(is_linearizable, histories)) < 180


class Register:
    """A correct register whose clients' calls overlap: each operation takes effect at a moment within its call."""

    def __init__(self, seed: int, keys: int = 3, clients: int = 5, count: int = 400) -> None:
        random = Random(seed)
        self.operations: list[Operation] = []
        planned = []
        for client in range(clients):
            now = random.random()
            for _ in range(count // clients):
                called = now
                happens = called + random.random()
                now = happens + random.random()
                planned.append((happens, client, called, now))
        values: dict[str, Any] = {}
        for serial, (_, client, called, returned) in enumerate(sorted(planned)):
            key = f"k{random.randrange(keys)}"
            operation = self._operation(random, serial, str(client), key, called, returned, values.get(key))
            _, values[key] = step(operation, values.get(key))
            if random.random() < 0.02 and operation.kind != READ:  # its answer was lost
                operation.returned = inf
            self.operations.append(operation)

    @staticmethod
    def _operation(
        random: Random, serial: int, client: str, key: str, called: float, returned: float, value: Any
    ) -> Operation:
        kind = random.choice([READ, READ, WRITE, COMPARE_AND_SET])
        if kind == READ:
            return Operation(client, key, READ, (), called, returned, value)
        if kind == WRITE:
            return Operation(client, key, WRITE, (serial,), called, returned)
        expected = random.choice([value, -1])
        return Operation(client, key, COMPARE_AND_SET, (expected, serial), called, returned, expected == value)


@pytest.mark.parametrize("seed", range(10))
def test_a_correct_history_is_found_correct(seed: int) -> None:
    assert check(Register(seed).operations).linearizable


def stale_read(operations: list[Operation], random: Random) -> None:
    """A read that answers a value which a write had replaced before the read was called."""
    for read in random.sample(operations, len(operations)):
        if read.kind != READ or read.answer is None:
            continue
        before = [o for o in operations if o.key == read.key and o.kind == WRITE and o.returned < read.called]
        before.sort(key=lambda operation: operation.returned)
        older = [o for o in before if before and o.returned < before[-1].called and o.arguments[0] != read.answer]
        if older:
            read.answer = older[0].arguments[0]
            return
    raise AssertionError("no read to spoil")


def lost_write(operations: list[Operation], random: Random) -> None:
    """A write that was acknowledged and then read, but is not there: the read saw what nobody wrote."""
    read = random.choice([o for o in operations if o.kind == READ and o.answer is not None])
    written = [o for o in operations if o.key == read.key and o.arguments[-1:] == (read.answer,)]
    operations.remove(written[0])


def doubled_success(operations: list[Operation], random: Random) -> None:
    """A compare-and-set that reports success although its expectation never held."""
    failed = [o for o in operations if o.kind == COMPARE_AND_SET and o.answer is False and not o.is_unknown]
    random.choice(failed).answer = True


def time_travel(operations: list[Operation], random: Random) -> None:
    """A read that answers a value before its write was called."""
    write = random.choice([o for o in operations if o.kind == WRITE])
    read = Operation("traveller", write.key, READ, (), write.called - 0.02, write.called - 0.01, write.arguments[0])
    operations.append(read)


@pytest.mark.parametrize("plant", [stale_read, lost_write, doubled_success, time_travel])
@pytest.mark.parametrize("seed", range(10))
def test_a_planted_violation_is_found_and_shown(plant: Any, seed: int) -> None:
    operations = Register(seed).operations
    plant(operations, Random(seed))
    verdict = check(operations)
    assert not verdict.linearizable
    assert verdict.key is not None
    assert verdict.key in repr(verdict)
    assert not is_linearizable(list(verdict.operations))


def test_an_operation_of_unknown_outcome_may_have_happened_late_or_never() -> None:
    lost = Operation("a", "k", WRITE, (1,), 0.0)
    for answers, good in (([None, None], True), ([None, 1], True), ([1, 1], True), ([1, None], False)):
        reads = [Operation("b", "k", READ, (), n + 1, n + 1.5, answer) for n, answer in enumerate(answers)]
        assert is_linearizable([lost, *reads]) == good


def test_a_double_application_is_found() -> None:
    added = [Operation("a", "k", ADD, (1,), n, n + 0.5) for n in range(3)]
    assert is_linearizable([*added, Operation("b", "k", READ, (), 5, 6, 3)])
    assert not is_linearizable([*added, Operation("b", "k", READ, (), 5, 6, 4)])


def test_an_operation_of_unknown_outcome_may_explain_what_a_comparison_saw() -> None:
    first = Operation("a", "k", WRITE, (1,), 0.0, 0.5)
    lost = Operation("b", "k", WRITE, (2,), 1.0)
    compared = Operation("c", "k", COMPARE_AND_SET, (2, 3), 2.0, 2.5, True)
    failed = Operation("c", "k", COMPARE_AND_SET, (1, 3), 2.0, 2.5, False)
    assert is_linearizable([first, lost, compared])
    assert is_linearizable([first, lost, failed])
    assert not is_linearizable([first, compared])
    assert not is_linearizable([first, failed])
    assert not is_linearizable([first, Operation("b", "k", READ, (), 1.0), failed])
