"""What an application says to the model layer, and hears from it, beside what the contract has for topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from glue.contract import Event, Request
from glue.model.questions import Ending, Question

if TYPE_CHECKING:
    from glue.model.consensus import ConsensusSettings, Stored
    from glue.model.mergeable import Delta, Prefixes
    from glue.model.storage import DeltaFile, Storage

PREFIX = "$glue/model"
"""First levels of the topics that models use: by the rules of MQTT a wildcard does not match them."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How an endpoint takes part in a model. `stored` is what `storage` has loaded, `deltas` what `delta_file` has.

    `delta_file` is None where mergeable keys are kept in memory. `names` are those of endpoints, by id, that are known.
    """

    consensus: ConsensusSettings
    storage: Storage
    stored: Stored
    mergeable: Prefixes
    delta_file: DeltaFile | None
    deltas: Sequence[Delta]
    names: Mapping[str, str]


class Pending(Protocol):
    """Whoever waits for an answer."""

    def answered(self, answer: Ending) -> None:
        """Called once, within a turn: to be quick, and not to raise."""


class OpenModel:
    """Take part in the shared state of this name. `at` is the wall clock (Unix)."""

    __slots__ = ("at", "name", "options")

    def __init__(self, name: str, options: ModelOptions, at: float) -> None:
        self.name = name
        self.options = options
        self.at = at


class CloseModel:
    """Take part no more."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Ask:
    """A question to the model of that name; an `Answer` comes in `timeout` seconds. `at` is the wall clock (Unix)."""

    __slots__ = ("at", "name", "question", "timeout", "token")

    def __init__(self, name: str, token: Pending, question: Question, timeout: float, at: float) -> None:
        self.name = name
        self.token = token
        self.question = question
        self.timeout = timeout
        self.at = at


class Answer:
    """What became of the `Ask` with this token."""

    __slots__ = ("answer", "token")

    def __init__(self, token: Pending, answer: Ending) -> None:
        self.token = token
        self.answer = answer


Wish = Request | OpenModel | CloseModel | Ask
"""What an application hands to a stack."""

Happening = Event | Answer
"""What a stack hands to an application."""
