"""Delayed messages that survive their publisher: keepers hold them until they are due.

State machines without a clock, a socket or a thread. `wire.py` is the form of what publishers and keepers tell each
other, `store.py` is what a keeper holds and releases, `journal.py` is its file.
"""
