"""The analysis as a stream over a directory of captures that grows (`python -m spark.live`)."""
