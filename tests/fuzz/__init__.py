"""Coverage-guided fuzzing of every decoder and every door: `python -m tests.fuzz all --seconds 600`."""
