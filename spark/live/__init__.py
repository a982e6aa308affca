"""Live analysis: a stream over a growing directory of captures (`python -m spark.live`)."""
