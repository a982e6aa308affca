"""The keepers of a topic, as many as the keepers announce.

Each topic ranks the keepers anew (rendezvous hashing, Thaler and Ravishankar 1998), so that topics spread over them.
When a keeper comes or goes, the others keep what they have. One keeper takes over each topic of a lost keeper.
"""

from __future__ import annotations

from collections.abc import Mapping

from glue.contract.hashing import blake2s


def rank(keeper: str, topic: str) -> bytes:
    """The place of a keeper for a topic; the lowest comes first."""
    return blake2s(f"{keeper}/{topic}".encode(), digest_size=8).digest()


def chosen(keepers: Mapping[str, int], topic: str) -> dict[str, int]:
    """The keepers that keep a topic, the first choice first.

    `keepers` has the wanted replicas by id of the keeper; 0 means that the keeper keeps everything in any case.
    """
    most = max(keepers.values(), default=0)
    if not most:
        return dict(keepers)
    ranked = sorted(keepers, key=lambda keeper: (rank(keeper, topic), keeper))
    return {keeper: keepers[keeper] for place, keeper in enumerate(ranked) if place < most or not keepers[keeper]}
