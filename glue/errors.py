"""The errors that a caller's mistake raises. A peer's mistake never raises: it is counted and dropped."""

from __future__ import annotations

DISTRIBUTION = "glue-lan"
"""The name of this package on PyPI, where `glue` is another project."""


class GlueError(Exception):
    """The base of every error that glue raises on purpose."""


class ConfigurationError(GlueError, ValueError):
    """A setting is wrong. The message names the setting, the value, and what is expected."""


class InterfaceError(ConfigurationError):
    """The interface does not exist or cannot be used. The message names the present ones."""


class PortInUseError(GlueError, OSError):
    """Another program uses the requested port."""

    def __str__(self) -> str:
        return self.strerror or super().__str__()


class TopicError(GlueError, ValueError):
    """A topic name or a pattern is malformed. The message tells where."""


class PayloadError(GlueError, TypeError):
    """A payload is neither bytes-like nor a JSON value."""


class MessageTooLargeError(GlueError, ValueError):
    """A message is larger than `message_limit`."""


class WouldBlockError(GlueError, BlockingIOError):
    """The queue is full, and `publish(block=False)` does not wait: the receivers do not keep up."""


class ClosedError(GlueError, RuntimeError):
    """The endpoint is closed, or was never started."""


class SlowReaderError(GlueError, RuntimeError):
    """More messages waited than a subscription's limit, and its policy is to disconnect then."""


class NotDurableError(GlueError, RuntimeError):
    """Messages are not on as many disks as was asked for, and will not be. Some keepers may have them all the same."""


class NoConsumerError(GlueError, LookupError):
    """No keeper that answered has a durable consumer of this name and pattern."""


class MissingExtraError(GlueError, ImportError):
    """A feature needs an optional package. The message has the pip command."""

    @classmethod
    def of(cls, feature: str, package: str, extra: str) -> MissingExtraError:
        """Return the error for a feature that needs a package from an extra of glue."""
        return cls(f"{feature} needs {package}: pip install '{DISTRIBUTION}[{extra}]'")


class StorageError(GlueError, OSError):
    """The disk failed. Its content is unknown now, so the replica stops."""


class StorageFullError(StorageError):
    """The disk is full. Nothing of the write was kept, so it can be repeated."""


class CorruptStorageError(StorageError):
    """Stored data are damaged. The replica must begin anew and fetch the state from the others."""


class ModelError(GlueError, ValueError):
    """A key, a value or an option of a model is wrong. The message names it and what is expected."""


class RefusedError(GlueError, RuntimeError):
    """Nothing was changed, for certain: a condition did not hold, or this side of a partition may not write."""


class MinorityError(RefusedError):
    """A majority of the model's voters is out of reach, or not found yet. Stale reads still work."""


class UnknownOutcomeError(GlueError, TimeoutError):
    """No answer came in time: the change may have happened, or may still happen. Only a later read can tell."""


class ForbiddenError(GlueError, PermissionError):
    """The rules of the group do not allow this endpoint to do it. The message names the rule."""

    def __str__(self) -> str:
        return str(self.args[0])


class RequestError(GlueError, RuntimeError):
    """A request has no answer; `responder` names the endpoint that was asked, "" for none."""

    def __init__(self, message: str, responder: str = "") -> None:
        super().__init__(message)
        self.responder = responder


class NoResponderError(RequestError):
    """No responder of the topic is known, so no endpoint was asked."""


class ResponderLostError(RequestError):
    """The responder left before it answered. It may have acted on the request, or not."""


class RequestTimeoutError(RequestError, TimeoutError):
    """No answer came in time. The responder may have acted on the request, or not."""


class RequestRefusedError(RequestError):
    """The responder did not act: it remembers too many requests, or it acted before and has forgotten the answer."""


class RequestCycleError(RequestError):
    """Nobody was asked: the request would come back to a handler that waits for it. The message names the cycle."""


class RemoteError(RequestError):
    """The responder's handler raised; `kind` is the name of what it raised, and `reason` its message."""

    def __init__(self, responder: str, kind: str, reason: str) -> None:
        super().__init__(f"{responder}: {kind}: {reason}" if reason else f"{responder}: {kind}", responder)
        self.kind = kind
        self.reason = reason

    def __reduce__(self) -> tuple[type[RemoteError], tuple[str, str, str]]:
        return type(self), (self.responder, self.kind, self.reason)
