"""Benchmarks of glue: micro (per layer), end to end, and the adapter with which a referee runs glue beside others."""
