"""Benchmarks of glue: micro (per layer), end to end, and an adapter with which a referee compares glue with other
systems.
"""
