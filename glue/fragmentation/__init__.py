"""The fragmentation layer: messages of any size in frames of one size."""

from glue.fragmentation.layer import Fragmentation

__all__ = ["Fragmentation"]
