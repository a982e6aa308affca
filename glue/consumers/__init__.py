"""Durable consumers: named readers of a keeper's log, their positions, and their members' shares.

State machines without a clock, a socket or a thread. One keeper is the *home* of a consumer: it stores the consumer's
position beside the log, and gives each message to a member. `position.py` has positions, `positions.py` the journal.
`consumer.py` is a consumer at home, and `home.py` all consumers there. `membership.py` is a member's side, and
`wire.py` the messages between.
"""

from glue.consumers.position import Position
from glue.consumers.positions import Positions

__all__ = ["Position", "Positions"]
