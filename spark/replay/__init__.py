"""Captured traffic through glue's own layers again, in virtual time (`python -m spark.replay`)."""
