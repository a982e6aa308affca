"""The topics layer: publish and subscribe by name, bundling, retained values and lifespan; above endpoint ids."""

from glue.topics.layer import Topics
from glue.topics.names import check_pattern, check_topic

__all__ = ["Topics", "check_pattern", "check_topic"]
