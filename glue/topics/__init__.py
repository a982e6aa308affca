"""The topics layer: publish and subscribe by name, bundling, retained values and lifespan; above endpoint ids."""

from glue.topics.bundle import BUNDLE_SIZE
from glue.topics.layer import Topics
from glue.topics.names import check_pattern, check_topic

__all__ = ["BUNDLE_SIZE", "Topics", "check_pattern", "check_topic"]
