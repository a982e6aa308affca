"""Durable consumers: who reads a keeper's log under a name, how far each is, and who works on what.

State machines without a clock, a socket or a thread. One keeper is the *home* of a consumer: it stores the consumer's
position beside its log, and gives each message to one member. `position.py` and `positions.py` are positions and their
journal, `consumer.py` is one consumer at its home, `home.py` all of them, `membership.py` the other side, and `wire.py`
what travels between the two.
"""

from glue.consumers.position import Position
from glue.consumers.positions import Positions

__all__ = ["Position", "Positions"]
