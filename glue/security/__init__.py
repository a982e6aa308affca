"""Security: what an endpoint with a key seals, opens and refuses; absent without a key."""

from glue.security.key import Epoch, Key, new_key, retire, rotated, with_epoch
from glue.security.layer import Sealing
from glue.security.suites import AES_GCM, CHACHA, SUITES, Suite

__all__ = [
    "AES_GCM",
    "CHACHA",
    "SUITES",
    "Epoch",
    "Key",
    "Sealing",
    "Suite",
    "new_key",
    "retire",
    "rotated",
    "with_epoch",
]
