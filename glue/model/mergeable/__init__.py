"""Mergeable keys: any replica writes at any time, and replicas with the same writes read the same values.

The module `part` is the mergeable side of a group. The keys are in `store`, the kinds of values in `values`, and the
messages between replicas in `exchange`.
"""

from glue.model.mergeable.prefixes import Prefixes
from glue.model.mergeable.store import Delta
from glue.model.mergeable.values import KINDS
from glue.model.mergeable.wire import ForeignError, MalformedDeltasError, TooFarError, decode_stored

__all__ = ["KINDS", "Delta", "ForeignError", "MalformedDeltasError", "Prefixes", "TooFarError", "decode_stored"]
