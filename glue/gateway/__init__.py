"""Doors for programs that do not speak glue: each is a pure state machine and a thin shell around it."""
