"""The model layer: state that programs share, built from deltas, agreed on by a quorum of them.

`Replicated` is the layer, `Direct` the one for programs that want none of it; beside them stands what is said to the
layer. What a program asks is in `questions`; `state` is what is agreed on, `consensus` how, `storage` where it is kept,
and `mergeable` what needs no agreement. Those are loaded with the first model that is opened: most programs open none.
"""

from glue.model.direct import Direct
from glue.model.replicated import Replicated
from glue.model.requests import Answer, Ask, CloseModel, Happening, ModelOptions, OpenModel, Pending, Wish

__all__ = [
    "Answer",
    "Ask",
    "CloseModel",
    "Direct",
    "Happening",
    "ModelOptions",
    "OpenModel",
    "Pending",
    "Replicated",
    "Wish",
]
