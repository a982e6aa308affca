"""The analysis: frames in, and out of them who lost what, what was late, and why (`python -m spark.analyze`)."""
