"""Checks of the requests of the application."""

from __future__ import annotations

from math import inf

from glue.contract import Publication, Record, Request, Subscribe
from glue.errors import ConfigurationError
from glue.topics.names import check_pattern, check_topic, check_type


def check_request(item: Request) -> None:
    """Raise TopicError or ConfigurationError for a request that is wrong."""
    if isinstance(item, Publication):
        options = item.options
        check_topic(item.topic)
        if options.type is not None:
            check_type(options.type)
        if options.lifespan is not None and not 0 < options.lifespan < inf:
            raise ConfigurationError(f"lifespan={options.lifespan!r}: expected a positive number of seconds")
    elif isinstance(item, Subscribe | Record):
        for pattern in item.patterns:
            check_pattern(pattern)
