"""The model layer: keys that programs share, either agreed on by a majority or merged.

The layer is `Replicated`. Its stand-in for programs without shared state is `Direct` in `direct.py`. The modules
`requests` and `questions` define what the application passes to the layer. The packages `state` (keys), `consensus`
(agreement), `storage` (files) and `mergeable` (keys without agreement) are imported when the first model opens, because
most programs open none.
"""

from glue.model.replicated import Replicated
from glue.model.requests import Answer, Ask, CloseModel, ModelOptions, OpenModel, Pending, StackEvent, StackRequest

__all__ = [
    "Answer",
    "Ask",
    "CloseModel",
    "ModelOptions",
    "OpenModel",
    "Pending",
    "Replicated",
    "StackEvent",
    "StackRequest",
]
