"""Rules about what comes to the group on the network: other network ids, keys, versions, programs and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from glue.doctor.finding import FAULT, NOTE, WARNING, Finding
from glue.doctor.names import of, some
from glue.doctor.seen import EndpointSeen, Seen, SenderSeen


def other_network(seen: Seen) -> Iterator[Finding]:
    """Endpoints with another network id ignore those of this one, and are ignored."""
    foreign = [one for one in seen.senders if one.version == 1 and one.network_id not in (None, seen.network_id)]
    for number in sorted({one.network_id for one in foreign if one.network_id is not None}):
        there = [one for one in foreign if one.network_id == number]
        who = some(sorted({_called(one) for one in there}))
        here = len(seen.others)
        is_fault = here == 0 or (len({one.id or one.address for one in there}) == 1 and here < 3)
        yield Finding(
            "other-network-id",
            FAULT if is_fault else NOTE,
            f"{who} {'has' if len(there) == 1 else 'have'} network id {number}, and the endpoints that were asked "
            f"{seen.network_id}: they ignore each other",
            f"give all the same network_id (GLUE_NETWORK_ID), or ask the others with --network-id {number}",
        )


def sealed_beside_plain(seen: Seen) -> Iterator[Finding]:
    """Some use a key and some do not."""
    if seen.sealed:
        plain = [one for one in seen.senders if one.network_id == seen.network_id and not one.sealed]
        if plain:
            yield Finding(
                "plain-beside-sealed",
                FAULT if len(seen.others) < 2 else WARNING,
                f"{some(sorted({_called(one) for one in plain}))} sends without a key, and the doctor was called with "
                "one: they ignore each other",
                "give the key file to all endpoints (--key, GLUE_KEY)",
            )
    elif sealed := [one for one in seen.senders if one.sealed and one.network_id == seen.network_id]:
        yield Finding(
            "sealed-beside-plain",
            FAULT,
            f"{some(sorted({_called(one) for one in sealed}))} seals its datagrams with a key, and the doctor was "
            "called without one: endpoints with a key and without ignore each other",
            "give the key file to all endpoints, and call the doctor with --key FILE",
        )


def another_key(seen: Seen) -> Iterator[Finding]:
    """Datagrams that no key of the doctor opens, or only one of an epoch that is over."""
    doctor = seen.doctor
    if doctor is None or not doctor.sealed:
        return
    keys = {one.key_id for one in seen.senders if one.sealed and one.address not in _addresses(seen)}
    where = some(sorted({_called(one) for one in seen.senders if one.sealed and one.key_id in keys}))
    if doctor.counted("security", "refused: epoch is over"):
        yield Finding(
            "epoch-over",
            FAULT,
            f"{where or 'an endpoint'} seals with an epoch of the key that is over",
            "copy the newest key file there (`glue key rotate` tells until when)",
        )
    if doctor.counted("security", "refused: another key"):
        yield Finding(
            "another-key",
            FAULT,
            f"{where or 'an endpoint'} seals with another key than the doctor was given",
            "copy the same key file to all endpoints (`glue key show FILE` tells its id)",
        )


def another_epoch(seen: Seen) -> Iterator[Finding]:
    """Endpoints seal with different epochs of one key."""
    epochs: dict[int, list[EndpointSeen]] = {}
    for one in seen.endpoints:
        if one.answered and one.epoch is not None:
            epochs.setdefault(one.epoch, []).append(one)
    if len(epochs) > 1:
        oldest = min(epochs)
        yield Finding(
            "epochs-differ",
            WARNING,
            f"{some([of(one) for one in epochs[oldest]])} still seals with epoch {oldest} of the key, others with "
            f"{max(epochs)}",
            "copy the newest key file there before the old epoch ends",
        )


def other_wire_version(seen: Seen) -> Iterator[Finding]:
    """Datagrams of a version of the wire format that is not understood."""
    found = [one for one in seen.senders if one.version not in (None, 1)]
    if found:
        yield Finding(
            "wire-version",
            FAULT,
            f"{some(sorted({_called(one) for one in found}))} speaks version {found[0].version} of the wire format, "
            "which endpoints of this one drop",
            "install the same release of glue everywhere",
        )


def not_glue(seen: Seen) -> Iterator[Finding]:
    """Another program sends to the group."""
    found = [one for one in seen.senders if one.version is None and not one.sealed]
    if found:
        count = sum(one.count for one in found)
        yield Finding(
            "not-glue",
            WARNING,
            f"{some(sorted({one.address for one in found}))} sends datagrams to the group that are not glue's "
            f"({count} in {seen.seconds:.0f} s)",
            "another program uses this group and port: give the endpoints another --multicast-address",
        )


def duplicate_name(seen: Seen) -> Iterator[Finding]:
    """Two endpoints have one name, and so one id."""
    clashing = {one.id: one.name for one in seen.endpoints if one.counted("discovery", "name clash")}
    clashing |= {one.id: one.name or one.id for one in seen.senders if one.lives >= 2 and one.id is not None}
    for id, name in sorted(clashing.items()):
        places = sorted({one.address for one in seen.senders if one.id == id})
        where = f" (at {some(places)})" if len(places) > 1 else ""
        yield Finding(
            "duplicate-name",
            FAULT,
            f"two endpoints have the name {name}{where}: they ignore each other, and their peers follow one of them",
            "give each endpoint a name of its own",
        )


def far_away(seen: Seen) -> Iterator[Finding]:
    """Multicast with another TTL than 1 was forwarded or copied by a box between."""
    found = [one for one in seen.senders if one.ttl not in (None, 1) and one.version is not None]
    if found:
        yield Finding(
            "ttl",
            WARNING,
            f"multicast of {some(sorted({_called(one) for one in found}))} comes with TTL {found[0].ttl} instead of 1: "
            "a program or a box between copies it, and endpoints may see it twice or with another address",
            "look for a multicast proxy or reflector between the machines",
        )


def _called(one: SenderSeen) -> str:
    return f"{one.name} ({one.address})" if one.name else one.address


def _addresses(seen: Seen) -> Counter[str]:
    return Counter(one.address for one in seen.others if one.answered)


SENDER_RULES = (
    sealed_beside_plain, another_key, other_network, other_wire_version, duplicate_name, another_epoch, far_away,
    not_glue,
)  # fmt: skip
