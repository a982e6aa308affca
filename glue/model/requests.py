"""The requests and answers between an application and the model layer, besides those of topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from glue.contract import Event, Request
from glue.contract.frozen import Frozen

if TYPE_CHECKING:
    from glue.model.consensus import ConsensusSettings, Stored
    from glue.model.mergeable import Delta, Prefixes
    from glue.model.questions import Ending, Question
    from glue.model.storage import DeltaFile, Storage

PREFIX = "$glue/model"
"""The first levels of the topics of models: by the rules of MQTT, a wildcard does not match them."""


class ModelOptions(Frozen):
    """How an endpoint takes part in a model.

    `stored` is what `storage` has loaded, and `deltas` what `delta_file` has. Without a `delta_file` mergeable keys
    stay in memory. `names` are the known endpoint names by id.
    """

    consensus: ConsensusSettings
    storage: Storage
    stored: Stored
    mergeable: Prefixes
    delta_file: DeltaFile | None
    deltas: Sequence[Delta]
    names: Mapping[str, str]


class Pending(Protocol):
    """The caller that waits for an answer."""

    def answered(self, answer: Ending) -> None:
        """Take the answer. Called once, within a turn: it must be quick and must not raise."""


class OpenModel:
    """Open the model of this name. `at` is the wall clock (Unix seconds)."""

    __slots__ = ("at", "name", "options")

    def __init__(self, name: str, options: ModelOptions, at: float) -> None:
        self.name = name
        self.options = options
        self.at = at


class CloseModel:
    """Close the model of this name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Ask:
    """Put a question to the model of this name. An `Answer` comes within `timeout` seconds.

    `at` is the wall clock (Unix seconds).
    """

    __slots__ = ("at", "name", "question", "timeout", "token")

    def __init__(self, name: str, token: Pending, question: Question, timeout: float, at: float) -> None:
        self.name = name
        self.token = token
        self.question = question
        self.timeout = timeout
        self.at = at


class Answer:
    """The ending of the `Ask` with this token."""

    __slots__ = ("answer", "token")

    def __init__(self, token: Pending, answer: Ending) -> None:
        self.token = token
        self.answer = answer


StackRequest = Request | OpenModel | CloseModel | Ask
"""The requests of an application to a stack."""

StackEvent = Event | Answer
"""The events of a stack for an application."""
