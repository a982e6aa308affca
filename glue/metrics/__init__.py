"""Metrics of an endpoint for Prometheus: the text that a scrape gets, and a small server for scrapes.

    print(glue.metrics.exposition(endpoint))

All numbers exist anyway, as counters of the layers. They are read when a scrape asks, so metrics cost nothing between.
"""

from glue.metrics.exposition import CONTENT_TYPE, Measured, exposition
from glue.metrics.server import MetricsServer, parse_address

__all__ = ["CONTENT_TYPE", "Measured", "MetricsServer", "exposition", "parse_address"]
