"""Mergeable keys: written everywhere at any time, alike on all replicas once they have heard of each other.

`part` is what a group has of it; `store` what is kept, `values` its kinds; `exchange` how replicas tell each other.
"""

from glue.model.mergeable.prefixes import Prefixes
from glue.model.mergeable.store import Delta
from glue.model.mergeable.values import KINDS
from glue.model.mergeable.wire import ForeignError, MalformedDeltasError, TooFarError, decode_stored

__all__ = ["KINDS", "Delta", "ForeignError", "MalformedDeltasError", "Prefixes", "TooFarError", "decode_stored"]
