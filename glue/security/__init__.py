"""Security: what an endpoint with a key seals, opens and refuses; absent without a key."""

from glue.security.identity import MemberIdentity
from glue.security.key import Epoch, Key, granted, new_key, retire, rotated, with_epoch
from glue.security.layer import Sealing
from glue.security.suites import AES_GCM, CHACHA, SUITES, Suite

__all__ = [
    "AES_GCM",
    "CHACHA",
    "SUITES",
    "Epoch",
    "Key",
    "MemberIdentity",
    "Sealing",
    "Suite",
    "granted",
    "new_key",
    "retire",
    "rotated",
    "with_epoch",
]
