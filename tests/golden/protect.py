"""Writes the golden vectors of identities: a proof, and signed and private bundles, from one member to another.

Run by hand, when the format changes on purpose: `python -m tests.golden.protect`. Nothing in these files is secret.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2s
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import orjson

from glue.contract import Outbound
from glue.security import MemberIdentity
from glue.security.guard import Guard, Policy
from glue.security.proof import Exchange, Prover
from glue.security.protection import Protection
from glue.security.signing import public_of
from glue.security.wrapping import Wrapper
from glue.topics.bundle import MessageGroup, encode

FOLDER = Path(__file__).parent / "protected"
POLICY: list[dict[str, Any]] = [
    {"who": "#", "may": ["publish", "subscribe"], "topics": ["#"]},
    {"topics": ["door"], "signed": True},
    {"topics": ["safe"], "private": True},
    {"topics": ["vault"], "signed": True, "private": True},
]
BUNDLES = {
    topic: encode([MessageGroup(topic, number, 1_700_000_000_000 + number, [b'{"is_open":true}'], None)])
    for number, topic in enumerate(("door", "safe", "vault"), 1)
}
"""Bundles before they are protected: signed, private and both."""
INCARNATION = 1_700_000_000


def id_of(name: str) -> str:
    return blake2s(name.encode(), digest_size=8).hexdigest()


def protected() -> dict[str, bytes]:
    """The content of the files, by name. The publisher is kitchen; hall is to read it."""
    random = Random(31)
    authority, hall_salt, challenge = random.randbytes(32), random.randbytes(16), random.randbytes(8)
    kitchen = MemberIdentity("kitchen", random.randbytes(32)).admitted(authority, None, [])
    assert kitchen.certificate is not None
    public = public_of(authority)
    hall_secret = random.randbytes(32)
    exchange, salt = Exchange(random.randbytes), random.randbytes(16)
    life = SimpleNamespace(salt=hall_salt, public=Exchange(lambda size: hall_secret).public)
    sealer: Any = SimpleNamespace(salt=salt, shared=lambda life: exchange.shared(life.public))
    prover = Prover(kitchen, public, lambda: 0.0, Counter(), lambda *told: None, INCARNATION)
    lives: Any = SimpleNamespace(find={hall_salt: life}.get)
    guard = Guard(
        kitchen.certificate, public, Policy.make(authority, 1, POLICY), lambda peer: None, lambda *told: None,
        lambda policy: None,
    )  # fmt: skip
    peers: Any = {id_of("hall"): (life,)}
    protection = Protection(
        guard, Wrapper(sealer, lives, prover, peers), id_of("kitchen"), INCARNATION, random.randbytes, Counter()
    )
    found = {"kitchen.proof": prover.prove(salt, exchange.public, challenge)}
    for number, (topic, bundle) in enumerate(BUNDLES.items()):
        item = Outbound((id_of("hall"),), [bundle])
        protection.protect(2.0 * number, item)  # after so long the wrapped key is sent again
        found[f"{topic}.bundle"] = bytes(item.bodies[0])
    members = {
        "authority": public, "publisher": id_of("kitchen").encode(), "incarnation": INCARNATION.to_bytes(8, "big"),
        "salt": salt, "challenge": challenge, "receiver": bytes.fromhex(id_of("hall")), "receiver salt": hall_salt,
        "receiver secret": hall_secret,
    }  # fmt: skip
    found["members.json"] = orjson.dumps(
        {name: content.hex() for name, content in members.items()},
        option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
    )
    return found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, content in protected().items():
        (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main()
