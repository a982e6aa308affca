"""Mergeable keys: written everywhere at any time, alike on all replicas once they have heard of each other.

`part` is what a group has of it; `store` what is kept, `values` its kinds; `exchange` how replicas tell each other.
"""

from glue.model.mergeable.prefixes import Prefixes
from glue.model.mergeable.values import KINDS

__all__ = ["KINDS", "Prefixes"]
