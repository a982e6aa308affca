"""The model layer: what a program shares through topics. So far the direct one, which adds nothing to them."""

from glue.model.direct import Direct

__all__ = ["Direct"]
