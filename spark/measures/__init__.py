"""Measures that need more than counting, as pure functions on NumPy columns.

The functions know neither Spark nor files, so the same code runs in Spark's workers, in one process and in tests. Times
are nanoseconds (int64) unless a name tells another unit. Results that can be added are returned as sums, so that parts
of a trace can be measured separately and combined.
"""
