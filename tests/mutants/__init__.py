"""Mutation testing: bugs planted in glue and spark one at a time, to see whether a test notices (`make mutants`).

`operators.py` finds the places and plants the bugs, `probes.py` marks which code ran, `reach.py` records which test
reaches which code, `copies.py` makes the copies all this runs in, `running.py` runs tests there within limits,
`trial.py` tries one mutant, and `__main__.py` is the command.
"""
