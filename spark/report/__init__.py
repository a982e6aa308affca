"""The report of an analysis: one HTML file that needs nothing else, opened from disk."""

from spark.report.page import page

__all__ = ["page"]
