"""The measures that need more than counting, as pure functions on NumPy columns.

They know neither Spark nor files, so that the same code runs in Spark's workers, in one process and in tests.
Times are nanoseconds (int64) unless a name says otherwise. Whatever can be added up is returned so that parts of a
trace can be measured apart and put together afterwards.
"""
