"""Signed and private topics: adds the protection to bundles, and takes it off again.

The rules of the group mark topics (see `rules.Mark`). A bundle with a signed topic carries an Ed25519 signature of its
publisher, which proves the publisher also among members of the group. A bundle with a private topic is encrypted with a
key for its receivers alone: each set of receivers has a separate key, wrapped for each receiver with the X25519 keys of
both. When a set changes, because a peer came, went or lost a right, another key is made.

    kind (1 byte: 0x10, + 1 if signed, + 2 if private), flow (4), number (8)
    if signed: signature (64) of `glue1 bundle`, a zero, the publisher's id and incarnation, and all bytes but itself
    if private: id of the key (8), count of wrapped keys (2); if there are any, the publisher's salt (16), and for each
    the receiver's id (8) and the wrapped key (48)
    the bundle; if private, encrypted, and the tag (16)

The number counts all protected bundles of a publisher's life. It makes the nonce, and a receiver takes none twice, nor
one from before the two met.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from math import inf
from struct import Struct
from typing import Any, Final

import orjson

from glue.contract import Inbound, Outbound
from glue.security.guard import Guard, asked_by
from glue.security.signing import SIGNATURE_SIZE
from glue.security.suites import AES_GCM, KEY_SIZE, TAG_SIZE, Cipher, cipher, invalid_tag
from glue.security.window import ReplayWindow
from glue.security.wrapping import SALT_SIZE, WRAPPED_SIZE, Wrapper

KIND, SIGNED, PRIVATE = 0x10, 1, 2
HEAD: Final = Struct(">BIQ")
_KEY: Final = Struct(">8sH")
_ID_SIZE: Final = 8
_WRAP: Final = _ID_SIZE + WRAPPED_SIZE
_BUNDLE: Final = b"glue1 bundle\0"
_INFO: Final = b"glue1 topic "
_INDEX: Final = 1536 << 10  # bytes of a bundle's index that are read

FLOWS: Final = 1024
"""Flows with a number at once. Each takes a key and its wrapped copies: with 16 receivers 1 kB, so 1 MB."""

WINDOWS: Final = 1024
KEYS: Final = 4096
"""Windows of flows, and keys, of all publishers together: 700 and 300 bytes each, so 2 MB. The oldest are forgotten."""

WRAP_AGAIN: Final = 1.0
"""Seconds after which the wrapped keys are sent again, for receivers that missed a bundle. As long after they were new,
each bundle that may be lost has them: a best-effort one, and one that may become too old to be sent."""


class _Flow:
    """One set of receivers: the number and the key."""

    __slots__ = ("cipher", "key", "key_id", "lives", "new_until", "number", "salt", "wrapped", "wrapped_at")

    def __init__(self, number: int, key: bytes, key_id: bytes) -> None:
        self.number = number
        self.key = key
        self.key_id = key_id
        self.cipher = topic_cipher(key, key_id)
        self.salt = b""  # of this endpoint's life when the key was wrapped
        self.lives: list[tuple[str, bytes]] = []  # for which it is wrapped
        self.wrapped = b""
        self.wrapped_at = -inf  # when it was last sent so
        self.new_until = -inf  # until when one bundle that may be lost is not enough for that


class Protection:
    """Protects outgoing bundles of an endpoint; opens and checks incoming bundles."""

    def __init__(
        self, guard: Guard, wrapper: Wrapper, own_id: str, incarnation: int, entropy: Callable[[int], bytes],
        statistics: Counter[str],
    ) -> None:  # fmt: skip
        self._guard = guard
        self._wrapper = wrapper
        self._own_id = own_id
        self._sender = _sender(own_id, incarnation)
        self._entropy = entropy
        self._statistics = statistics
        self._invalid_tag = invalid_tag()
        self._flows: OrderedDict[tuple[Any, ...], _Flow] = OrderedDict()
        self._flow_count = 0
        self._windows: OrderedDict[tuple[str, int, int], ReplayWindow] = OrderedDict()
        self._keys: OrderedDict[tuple[str, int, bytes], Cipher] = OrderedDict()

    def forget(self, peer: str | None = None) -> None:
        """Make other keys for all sets with this peer, or for all: after a restart, a loss, or a change of rules."""
        for flow in [flow for flow in self._flows if peer is None or peer in flow[0]]:
            del self._flows[flow]

    def is_protected(self, item: Inbound) -> bool:
        """Whether one of the bodies is protected."""
        return any(bytes(body[:1]) in _KINDS for body in item.bodies)

    # ---------------------------------------------------------------------------------------------- down

    def protect(self, now: float, item: Outbound) -> None:
        """Sign or encrypt the bundle, if a topic in it asks for that."""
        body = item.bodies[0]
        is_signed, is_private = self._marks(body)
        if not is_signed and not is_private:
            return
        flow = self._flow(item)
        number = self._wrapper.next_number()
        head = HEAD.pack(KIND + SIGNED * is_signed + PRIVATE * is_private, flow.number, number)
        if is_private:
            wrapped = self._wrapped(now, flow, item.peers, item.reliable and item.expires == inf)
            about = _KEY.pack(flow.key_id, len(wrapped) // _WRAP)
            text = flow.cipher.encrypt(_nonce(flow.number, number), bytes(body), self._sender + head)
            body = b"".join([about, flow.salt if wrapped else b"", wrapped, text])
        if is_signed:
            signature = self._wrapper.sign(b"".join([_BUNDLE, self._sender, head, body]))
            head += signature
        item.bodies = [b"".join([head, body])]
        self._statistics["bundles protected"] += 1

    def _flow(self, item: Outbound) -> _Flow:
        name = item.peers, item.priority, item.reliable
        flow = self._flows.get(name)
        if flow is None:
            while len(self._flows) >= FLOWS:
                self._flows.popitem(last=False)
            self._flow_count += 1
            flow = self._flows[name] = _Flow(self._flow_count, self._entropy(KEY_SIZE), self._entropy(_ID_SIZE))
        return flow

    def _wrapped(self, now: float, flow: _Flow, peers: Sequence[str], is_sure: bool) -> bytes:
        """Return the wrapped keys, if they have to be sent now. `is_sure`: whether what they are sent with arrives."""
        is_same_life = flow.salt == self._wrapper.salt
        if is_same_life and now < flow.wrapped_at + WRAP_AGAIN:
            return b""
        lives = self._wrapper.lives(peers)
        if not is_same_life or lives != flow.lives:
            flow.salt, flow.lives = self._wrapper.salt, lives
            found = [(peer, self._wrapper.wrap(salt, flow.key_id, flow.key)) for peer, salt in lives]
            flow.wrapped = b"".join([bytes.fromhex(peer) + one for peer, one in found if one is not None])
            flow.new_until = now + WRAP_AGAIN
        is_complete = {peer for peer, _ in lives}.issuperset(peers)  # else one is met again soon
        if is_complete and (is_sure or now >= flow.new_until):
            flow.wrapped_at = now
        return flow.wrapped

    # ------------------------------------------------------------------------------------------------ up

    def opened(self, item: Inbound) -> list[Inbound]:
        """Return what of these bundles is what it should be, opened; the rest is counted."""
        if not self._guard.rules.has_marks and not self.is_protected(item):
            return [item]
        bodies = [bytes(body) for body in item.bodies]
        found = [self._opened(item.peer, item.incarnation, body) for body in bodies]
        if found == bodies:
            return [item]
        return [
            Inbound(item.peer, item.incarnation, item.address, item.header, [body], item.age, item.reliable)
            for body in found
            if body is not None
        ]

    def _opened(self, peer: str, incarnation: int, body: bytes) -> bytes | None:
        kind, is_signed = 0, False
        if body[:1] in _KINDS:
            kind = body[0] - KIND
            opened = self._taken_off(peer, incarnation, body, kind)
            if opened is None:
                return None
            body, is_signed = opened, bool(kind & SIGNED)
        if self._guard.rules.has_marks:
            must_be_signed, is_private = self._marks(body)
            if must_be_signed and not is_signed:
                self._statistics["refused: not signed"] += 1
                return None
            if is_private and not kind & PRIVATE:
                self._statistics["private, but came in the open"] += 1
        return body

    def _taken_off(self, peer: str, incarnation: int, body: bytes, kind: int) -> bytes | None:
        """Return the bundle in a protected body; None, counted, if it is not what it says."""
        if len(body) < HEAD.size + SIGNATURE_SIZE * bool(kind & SIGNED):
            self._statistics["malformed protection"] += 1
            return None
        head, rest = body[: HEAD.size], body[HEAD.size :]
        _, flow, number = HEAD.unpack(head)
        window = self._window(peer, incarnation, flow)
        if window is None or not window.is_new(number):
            self._statistics["refused: replayed bundle"] += 1
            return None
        sender = _sender(peer, incarnation)
        if kind & SIGNED:
            signature, rest = rest[:SIGNATURE_SIZE], rest[SIGNATURE_SIZE:]
            if not self._wrapper.is_signed(peer, signature, b"".join([_BUNDLE, sender, head, rest])):
                self._statistics["refused: wrong signature"] += 1
                return None
        if kind & PRIVATE:
            opened = self._decrypted(peer, incarnation, rest, _nonce(flow, number), sender + head)
            if opened is None:
                return None
            rest = opened
        window.accept(number)
        self._statistics["bundles opened"] += 1
        return rest

    def _decrypted(self, peer: str, incarnation: int, rest: bytes, nonce: bytes, about: bytes) -> bytes | None:
        if len(rest) < _KEY.size + TAG_SIZE:
            self._statistics["malformed protection"] += 1
            return None
        key_id, count = _KEY.unpack_from(rest)
        start = _KEY.size
        name = peer, incarnation, key_id
        found = self._keys.get(name)
        if count:
            salt, start = rest[start : start + SALT_SIZE], start + SALT_SIZE
            if found is None:
                found = self._unwrapped(peer, key_id, salt, rest[start : start + count * _WRAP])
            start += count * _WRAP
        if found is None:
            self._statistics["refused: private"] += 1
            return None
        try:
            opened = found.decrypt(nonce, rest[start:], about)
        except self._invalid_tag:
            self._statistics["refused: bad tag"] += 1
            return None
        self._keys[name] = found  # only after the tag held
        self._keys.move_to_end(name)
        while len(self._keys) > KEYS:
            self._keys.popitem(last=False)
        return opened

    def _unwrapped(self, peer: str, key_id: bytes, salt: bytes, wrapped: bytes) -> Cipher | None:
        own = bytes.fromhex(self._own_id)
        for start in range(0, len(wrapped), _WRAP):
            if wrapped[start : start + _ID_SIZE] == own:
                key = self._wrapper.unwrap(peer, salt, key_id, wrapped[start + _ID_SIZE : start + _WRAP])
                if key is not None:  # else it may be for another life of this identity
                    return topic_cipher(key, key_id)
        return None

    def _window(self, peer: str, incarnation: int, flow: int) -> ReplayWindow | None:
        """Return the window of a flow; None if the peer has not told where its numbers were when it was met."""
        name = peer, incarnation, flow
        window = self._windows.get(name)
        if window is None:
            first = self._wrapper.first_number(peer, incarnation)
            if first is None:
                return None
            window = self._windows[name] = ReplayWindow(first - 1)
            while len(self._windows) > WINDOWS:
                self._windows.popitem(last=False)
        else:
            self._windows.move_to_end(name)
        return window

    def _marks(self, body: bytes) -> tuple[bool, bool]:
        """Whether a topic in a bundle is to be signed, and whether one is private. What is malformed is not."""
        rules = self._guard.rules
        if not rules.has_marks:
            return False, False
        try:
            topics = {group["topic"] for group in orjson.loads(body[: body.index(b"\n", 0, _INDEX)])["groups"]}
        except (ValueError, LookupError, TypeError):
            return False, False
        is_signed = is_private = False
        for topic in topics:
            asked = asked_by(topic) if type(topic) is str else None
            if asked is not None and asked[0] != "read":
                marked = rules.marks_of(asked[1])
                is_signed, is_private = is_signed or marked[0], is_private or marked[1]
        return is_signed, is_private


_KINDS: Final = {bytes([KIND + kind]) for kind in (SIGNED, PRIVATE, SIGNED + PRIVATE)}


def topic_cipher(key: bytes, key_id: bytes) -> Cipher:
    """The cipher of a set of receivers; all use AES-256-GCM, so that every member opens it."""
    return cipher(AES_GCM, key, key_id, _INFO)


def _sender(peer: str, incarnation: int) -> bytes:
    return peer.encode() + incarnation.to_bytes(8, "big")


def _nonce(flow: int, number: int) -> bytes:
    return flow.to_bytes(4, "big") + number.to_bytes(8, "big")
