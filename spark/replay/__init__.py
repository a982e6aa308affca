"""Replay of captured traffic through glue's own layers, in virtual time (`python -m spark.replay`)."""
