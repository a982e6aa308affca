"""Rotation: when a member seals with a new epoch of the key, and when the old epoch is over.

A member that has a new epoch opens both. The member seals with the new epoch as soon as all known lives have it, as
soon as another member seals with it, or after the overlap. The old epoch is over an overlap later. So members get the
new epoch one by one, and no member with a timely copy is cut off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from glue.security.key import Epoch, Key, retire
from glue.security.lives import Life


class Rotation:
    """The epochs of one member, and the timer of a rotation; `deadline` is when `advance` is due."""

    def __init__(self, key: Key, on_key: Callable[[Key], None] | None = None) -> None:
        """`on_key` is called with each later key that has to be kept."""
        self._on_key = on_key
        self._set(key)

    def _set(self, key: Key) -> None:
        self.key = key
        self.sealing: Epoch = key.epochs[0] if len(key.epochs) > 1 else key.newest
        self.by_id = {epoch.id: epoch for epoch in key.epochs}
        self._switch_at = self._retire_at = math.inf
        self.deadline = -math.inf if len(key.epochs) > 1 else math.inf  # a timer begins with the first call

    @property
    def is_over(self) -> bool:
        """Whether there is one epoch alone."""
        return len(self.key.epochs) == 1

    def take(self, key: Key) -> None:
        """Take a key with other epochs."""
        before = self.sealing
        self._set(key)
        if before.id in self.by_id:
            self.sealing = self.by_id[before.id]
        if self._on_key is not None:
            self._on_key(key)

    def met(self, now: float, epoch_id: int) -> bool:
        """Note that another seals with this epoch; whether this member seals with another one from now on."""
        if epoch_id != self.key.newest.id or self.sealing is self.key.newest:
            return False
        self._switch(now)
        return True

    def advance(self, now: float, lives: Iterable[Life]) -> bool:
        """Do what is due, or what the lives allow; whether the epochs in use have changed."""
        if self.is_over:
            return False
        if self.deadline == -math.inf:
            self._switch_at = self.deadline = now + self.key.overlap
        known = list(lives)
        all_have_it = bool(known) and all(life.newest >= self.key.newest.number for life in known)
        if self.sealing is not self.key.newest and (all_have_it or now >= self._switch_at):
            self._switch(now)
            return True
        if now >= self._retire_at:
            self._set(retire(self.key))
            if self._on_key is not None:
                self._on_key(self.key)
            return True
        return False

    def _switch(self, now: float) -> None:
        self.sealing = self.key.newest
        self._switch_at = math.inf
        self._retire_at = self.deadline = now + self.key.overlap
