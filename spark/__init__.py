"""Captured traffic of glue on Spark: what was lost, what was late, and why.

This package is an application beside glue: `import glue` never imports it, and it is the only code that needs a JVM.
"""
