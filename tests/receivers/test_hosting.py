"""Which kinds a host hosts, and what others learn of it; what it writes into the model, and believes of its copy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.endpoint import receiver_hosts
from glue.endpoint.receiver_hosts import BEAT_TOPIC
from glue.endpoint.receiver_kind import Kind
from glue.endpoint.receiver_ops import Ask, Known
from glue.model.questions import Committed, Found, Refused, Unknown
from glue.model.state import Change, Delete, Expect, ExpectRevision, Set
from glue.receivers.address import parse
from glue.receivers.context import AgainError, FunctionReceiver, Load, Save
from glue.receivers.wire import encode
from tests.receivers.desk import HOST, PEER, Desk

ROOT = "receivers/%3Asum"


def made(desk: Desk, is_fenced: bool = True) -> Kind:
    """A kind with two partitions and its state in the model."""
    return Kind(
        desk.runtime, ":sum", lambda: FunctionReceiver(lambda context, message: None), 2, "plant", None, 1e9, None, {},
        is_fenced,
    )  # fmt: skip


def owned(kind: Kind) -> None:
    kind.note([(f"owner/{partition}", {"host": HOST, "life": 7, "epoch": 3}) for partition in range(2)])


def beats(desk: Desk) -> list[Any]:
    """The kinds of the beats that were published since the last look."""
    return [head["kinds"] for topic, heads in desk.published() if topic == BEAT_TOPIC for head in heads]


# ---------------------------------------------------------------------------------------------------------- hosting


def test_a_kind_is_told_of_as_it_comes_leaves_and_ends() -> None:
    desk = Desk()
    desk.published()
    kind = made(desk)
    desk.runtime.add_kind(kind)
    assert (beats(desk), desk.runtime.outbox.hosts) == ([{":sum": 2}], {":sum": (2, {HOST})})
    with pytest.raises(glue.ConfigurationError) as caught:
        desk.runtime.add_kind(made(desk))
    assert str(caught.value) == "receivers of kind ':sum' are hosted here already; close them first"
    owned(kind)
    desk.answer(desk.questions()[1], partitions=2)
    desk.run()
    desk.runtime.withdraw(kind)
    assert (beats(desk), desk.runtime.outbox.hosts) == ([{}], {})
    assert not kind.serves(0)
    desk.runtime.remove_kind(kind)
    assert (beats(desk), desk.runtime.kinds) == ([{}], {})
    desk.runtime.send_text("sum/x", 1)
    assert desk.runtime.outbox.count == 1
    desk.runtime.add_kind(made(desk))  # there is room for it again
    desk.runtime.remove_kind(desk.runtime.kinds[":sum"])
    beats(desk)
    desk.runtime.withdraw(kind)
    assert beats(desk) == []  # nothing is hosted that others know of


def test_of_changed_hosts_only_their_kinds_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, changed = Desk(), list[str]()
    monkeypatch.setattr(desk.runtime.outbox, "hosts_changed", changed.append)

    def beat(life: int, **kinds: int) -> list[str]:
        changed.clear()
        desk.deliver(encode({"kinds": kinds}), life=life, token=desk.runtime._beat_token)
        return sorted(changed)

    desk.told.clear()
    assert beat(1, a=1, b=2) == ["a", "b"]
    assert desk.told[0] == ("handled", 1)
    assert len(desk.told) == 2  # the delivery as well
    first = desk.runtime.beats[PEER]
    desk.time += 1.0
    assert beat(1, a=1, b=2) == []
    assert (desk.runtime.beats[PEER] is first, first.at, first.life) == (True, 101.0, 1)
    assert beat(2, a=1, b=2) == []
    assert (desk.runtime.beats[PEER].life, desk.runtime.beats[PEER].at) == (2, 101.0)
    assert beat(2, a=1, c=1) == ["b", "c"]
    assert beat(2, a=1, c=4096, d=4097, e=0) == ["c"]
    assert desk.runtime.outbox.hosts == {"a": (1, {PEER}), "c": (4096, {PEER})}


def test_so_many_kinds_are_remembered_once_their_hosts_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_hosts, "HEARD_OF", 2)
    desk = Desk()
    for name in ("a", "b", "c"):
        desk.deliver(encode({"kinds": {f":{name}": 1}}), token=desk.runtime._beat_token)
    errors = [type(desk.runtime.unanswered(parse(f"{name}/x"))) for name in "abc"]
    assert errors == [glue.RequestTimeoutError, glue.RequestTimeoutError, glue.NoResponderError]


# ------------------------------------------------------------------------------------------------- state in the model


class Host(Desk):
    """A host with a copy of the model, in which the test writes."""

    def __init__(self, is_fenced: bool = True) -> None:
        super().__init__()
        self.copy: dict[str, tuple[bytes, int]] = {}
        self.groups: dict[str, Any] = {"plant": SimpleNamespace(state=self.copy)}
        layer = SimpleNamespace(groups=self.groups)
        self.runtime.core.stack = SimpleNamespace(layers={"model": layer})  # type: ignore[assignment]
        self.kind = made(self, is_fenced)
        self.runtime.add_kind(self.kind)
        owned(self.kind)
        self.asked.clear()

    def do(self, id: str, step: Any, partition: int = 0) -> Any:
        """The operation of a step of a receiver that has loaded its state."""
        activation: Any = SimpleNamespace(id=id, partition=partition, epoch=3, address=f"sum/{id}")
        return self.kind._operation(activation, step)


@pytest.mark.parametrize(
    ("id", "name"), [("abc1", "abc1"), ("ä", "%C3%A4"), ("a b", "a%20b"), ("a/b", "a%2Fb"), ("_", "_")]
)
def test_a_receiver_s_name_is_a_level_of_its_key_and_is_read_back(
    id: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, woken = Host(), list[str]()
    write = host.do(id, Save({"state": {}}, True)).call.question
    assert [one.key for one in write.operations[-2:]] == [f"{ROOT}/state/0/{name}", f"{ROOT}/timed/0/{name}"]
    monkeypatch.setattr(host.kind, "wake", woken.append)
    host.run()
    (claim, _) = host.orders(Ask)
    assert claim.call.question.pattern == f"{ROOT}/timed/0/+"
    assert claim.call.result(Found([Change(f"{ROOT}/timed/0/{name}", b"true", 1)])) == [id]


def test_a_document_is_written_under_its_owner_and_its_last_revision() -> None:
    fence = Expect(f"{ROOT}/owner/0", {"host": HOST, "life": 7, "epoch": 3})
    state, timed, document = f"{ROOT}/state/0/x", f"{ROOT}/timed/0/x", {"state": {"a": 1}}
    host = Host()
    asked = host.do("x", Save(document, False))
    assert asked.model == "plant"
    assert [*asked.call.question.operations] == [
        fence, ExpectRevision(state, 0), Set(state, document), Delete(timed),
    ]  # fmt: skip
    host.copy[state] = b"{}", 9
    assert [*host.do("x", Save(document, True)).call.question.operations] == [
        fence, ExpectRevision(state, 9), Set(state, document), Set(timed, True),
    ]  # fmt: skip
    host.groups.clear()  # the model was closed
    assert [*host.do("x", Save(document, True)).call.question.operations] == [
        fence, Set(state, document), Set(timed, True),
    ]  # fmt: skip
    bare = Host(is_fenced=False)
    assert [*bare.do("x", Save(document, False)).call.question.operations] == [Set(state, document), Delete(timed)]


def test_the_copy_is_read_unless_an_outcome_is_unknown() -> None:
    host, key = Host(), f"{ROOT}/state/0/x"
    host.copy[key] = b'{"state":1}', 9
    known = host.do("x", Load())
    assert isinstance(known, Known)
    assert (known.value, host.do("y", Load()).value) == ({"state": 1}, None)
    save = host.do("x", Save({}, False)).call
    assert save.result(Committed(5)) == 5
    with pytest.raises(glue.RefusedError, match="no"):
        save.result(Refused("no"))
    assert isinstance(host.do("x", Load()), Known)
    early = Host()
    for ending in (Unknown("perhaps"), None):
        with pytest.raises(glue.UnknownOutcomeError):
            save.result(ending)
        asked = host.do("x", Load())
        assert (type(asked), asked.model, asked.call.question.pattern) == (Ask, "plant", key)
        assert isinstance(host.do("x", Load(), 1), Known)  # in the other partition nothing is unknown
        with pytest.raises(glue.UnknownOutcomeError):
            save.result(ending)
        assert asked.call.result(Found([Change(key, b'{"state":2}', 11)])) == {"state": 2}
        assert isinstance(host.do("x", Load()), Ask)  # another outcome became unknown meanwhile
        assert host.do("x", Load()).call.result(Found([])) is None
        assert isinstance(host.do("x", Load()), Known)
    early.groups["plant"] = SimpleNamespace(state={})
    assert isinstance(early.do("x", Load()), Known)
    early.groups["plant"] = SimpleNamespace(state={})  # closed and opened again: it may be behind
    assert isinstance(early.do("x", Load()), Ask)


def test_a_receiver_of_a_lost_partition_does_nothing_more() -> None:
    host = Host()
    activation: Any = SimpleNamespace(id="x", partition=0, epoch=0, address="sum/x")
    host.kind._operation(activation, Load())
    assert activation.epoch == 3
    for epoch, step in ((-1, Load()), (-1, Save({}, False)), (2, Save({}, False))):
        activation.epoch = epoch
        with pytest.raises(AgainError) as caught:
            host.kind._operation(activation, step)
        assert str(caught.value) == "sum/x moved"
        assert activation.epoch == epoch
    host.kind.note([("owner/0", {"host": PEER, "life": 1, "epoch": 4})])
    activation.epoch = 3
    for step in (Load(), Save({}, False)):
        with pytest.raises(AgainError):
            host.kind._operation(activation, step)


def test_what_a_lost_partition_had_in_memory_is_forgotten_at_once() -> None:
    host = Host()
    host.kind._ready = {0: 3, 1: 3}
    activation: Any = host.kind._new("x", 0)
    activation.receiver = object()
    busy: Any = host.kind._new("y", 0)
    busy.receiver, busy.is_scheduled = object(), True
    other: Any = host.kind._new("z", 1)
    host.kind.note([("owner/0", {"host": PEER, "life": 1, "epoch": 4})])
    assert (activation.receiver, busy.receiver is None, host.kind.activations) == (None, False, {"z": other})
    assert (host.kind.serves(0), host.kind.serves(1)) == (False, True)


def test_what_is_hosted_no_more_gets_nothing_more() -> None:
    host = Host()
    host.kind._ready = {0: 3, 1: 3}
    host.runtime.send_text("sum/x", 1)
    host.run()
    activation = host.kind.activations["x"]
    assert (activation.is_direct, activation.mailbox) == (True, None)
    host.runtime.remove_kind(host.kind)
    for text in ("sum/x", ":sum/x"):
        host.runtime.send_text(text, 2)
    assert (host.runtime.outbox.count, activation.mailbox, host.runtime.outbox.hosts) == (2, None, {})


def test_a_fault_in_a_tick_does_not_end_the_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    kind = made(desk)
    desk.runtime.add_kind(kind)
    with monkeypatch.context() as broken:
        broken.setattr(kind, "tick", lambda now: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            desk.tick()
    assert desk.alarms()[-1] == 0.1
    desk.published()
    desk.tick(0.5)
    assert beats(desk) == [{":sum": 2}]
