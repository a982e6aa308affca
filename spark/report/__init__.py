"""Report of an analysis: one self-contained HTML file."""

from spark.report.page import page

__all__ = ["page"]
