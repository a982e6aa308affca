"""Shared subscriptions: each message of a topic goes to one member of a group.

* `jobs.py`, `credit.py`, `dispatcher.py`: the choice of the member for each message, and its redelivery. These modules
  know no topic, no wire and no layer, so that other kinds of consumer groups can use them.
* `wire.py`, `sharing.py`: interests, topics and acknowledgements, for the topics layer.
"""
