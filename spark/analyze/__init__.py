"""Analysis of frames: losses, delays and their causes (`python -m spark.analyze`)."""
