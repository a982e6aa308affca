"""Analysis of captured glue traffic on Spark: losses, delays and their causes.

This package is a separate application. `import glue` never imports it, and no other code needs a JVM.
"""
