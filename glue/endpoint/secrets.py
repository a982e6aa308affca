"""Key files: read for an endpoint, and written by `glue key`. A file that others may read is refused.

The cipher is chosen by measurement, once in a process: AES-256-GCM where the processor has instructions for it,
ChaCha20-Poly1305 elsewhere.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from glue.errors import ConfigurationError
from glue.security.at_rest import SealedDirectory, sealed_directory
from glue.security.guard import POLICY_SIZE, Policy
from glue.security.identity import MemberIdentity
from glue.security.key import Key, retire
from glue.security.suites import AES_GCM, SUITES, Suite, cipher, require
from glue.stack import Secrets
from glue.storage import Directory

TRIAL = bytes(1400)
TRIALS = 32
"""Encryptions of a full datagram that measure a cipher: 50 µs with AES instructions, some milliseconds without."""

logger = logging.getLogger("glue")

MAKE = {"key": "new", "storage_key": "new", "identity": "identity NAME", "authority": "authority", "policy": "rules"}
"""The action of `glue key` that makes each kind of file."""

LONGEST = 64 << 10  # bytes of a key file


def read_secret(path: str | os.PathLike[str], kind: str = "key") -> bytes:
    """Return the content of a file that only its owner may read.

    Raises ConfigurationError if it cannot be read, or if others may read it; the message says what to do.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb", opener=_without_waiting) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigurationError(f"{kind}={name!r}: not a file")
            if mode & 0o077:
                raise ConfigurationError(
                    f"{kind}={name!r}: others may read or write this file; protect it with: chmod 600 {name}"
                )
            return file.read(LONGEST)
    except FileNotFoundError:
        raise ConfigurationError(
            f"{kind}={name!r}: no such file; make one with: glue key {MAKE[kind]} {name}"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{kind}={name!r}: {error.strerror}; it must be readable for this user") from None


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe without a writer is opened at once, too, and then refused."""
    return os.open(path, flags | os.O_NONBLOCK)


def write_secret(path: str | os.PathLike[str], content: str, replaces: bool = False) -> None:
    """Write a file that only its owner may read, as a whole or not at all.

    Raises FileExistsError without `replaces`, and OSError.
    """
    target = Path(path)
    if not replaces and target.exists():
        raise FileExistsError(17, "File exists", str(target))
    made = target.with_name(f".{target.name}.{os.urandom(8).hex()}")  # another one may have died while it wrote
    try:
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:  # the name of the file that is wanted says more
        raise type(error)(error.errno, error.strerror, str(target)) from None
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(made, target)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def read_open(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return at most `limit` bytes of a file that is not secret. Raises ConfigurationError, also for a pipe."""
    name = os.fspath(path)
    try:
        with open(name, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigurationError(f"{name}: not a file")
            return file.read(limit)
    except OSError as error:
        raise ConfigurationError(f"{name}: {error.strerror}") from None


def read_key(path: str | os.PathLike[str]) -> Key:
    """Read a key file. Raises ConfigurationError."""
    return Key.from_text(read_secret(path), os.fspath(path))


class KeyFile:
    """The key file of a running endpoint: read again when it changes, and written by a rotation."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._state = self._stat()
        self.newest = 0
        """The number of the newest epoch that the endpoint has."""

    def _stat(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def look(self) -> Key | None:
        """Return the key in the file, if the file has changed; what is wrong with it is logged."""
        state = self._stat()
        if state is None or state == self._state:
            return None
        self._state = state
        try:
            found = read_key(self._path)
        except ConfigurationError as error:
            logger.error("the key file changed, and is not used: %s", error)
            return None
        if found.newest.number < self.newest:
            logger.error(
                "the key file now ends with epoch %d, and this endpoint goes on with epoch %d: copy the present key "
                "file back before a restart", found.newest.number, self.newest,
            )  # fmt: skip
            return None
        self.newest = found.newest.number
        return found

    def keep(self, key: Key) -> None:
        """Write a key that came by a rotation, unless the file has it."""
        try:
            self.newest = key.newest.number
            known = read_key(self._path)
            if known != replace(key, rotated_at=known.rotated_at):
                write_secret(self._path, replace(key, rotated_at=time.time()).to_text(), replaces=True)
        except (OSError, ConfigurationError) as error:
            logger.error("the key was rotated, but its file is not: copy the new key file before a restart: %s", error)
        self._state = self._stat()


def open_secrets(
    key: Any,
    identity: Any = None,
    rules: Any = None,
    entropy: Callable[[int], bytes] | None = None,
    started_at: float = 0.0,
) -> Secrets:
    """Return what an endpoint seals with: `key` is a `Key`, or the path of its file; `identity` likewise, or None.

    In a simulation, with `entropy`, the cipher is always the same, and the wall clock stands at `started_at`. Raises
    ConfigurationError and MissingExtraError.
    """
    require()
    suite = fastest_suite() if entropy is None else AES_GCM
    unix_time = time.time if entropy is None else lambda: started_at
    file = None
    if isinstance(key, str):
        file, key = KeyFile(key), _without_the_past(read_key(key), os.stat(key).st_mtime)
        file.newest = key.newest.number
    if not isinstance(key, Key):
        raise ConfigurationError(f"key={key!r}: expected the path of a key file")
    found = _identity(key, identity)
    policy = _policy(key, rules)
    keep = None if file is None else file.keep
    look = None if file is None else file.look
    kept = partial(_keep_policy, rules) if isinstance(rules, str) else None
    return Secrets(key, suite, entropy or os.urandom, keep, look, found, policy, kept, unix_time)


def read_storage_key(key: Any) -> Key:
    """Return the key of what an endpoint stores; `key` is a `Key`, or the path of its file.

    Raises ConfigurationError and MissingExtraError.
    """
    require()
    if isinstance(key, str):
        key = Key.from_text(read_secret(key, "storage_key"), key)
    if not isinstance(key, Key):
        raise ConfigurationError(f"storage_key={key!r}: expected the path of a key file")
    return key


def sealed_at_rest(
    directory: Directory, key: Any, entropy: Callable[[int], bytes] | None, place: str
) -> SealedDirectory:
    """Return a directory of sealed files; `key` is a `Key`, or the path of its file.

    Raises ConfigurationError and MissingExtraError.
    """
    key = read_storage_key(key)
    suite = fastest_suite() if entropy is None else AES_GCM
    return sealed_directory(directory, key, suite, entropy or os.urandom, place)


def _policy(key: Key, rules: Any) -> Policy | None:
    """Return the rules of a file, which may not be there yet. Raises ConfigurationError."""
    if rules is None or isinstance(rules, Policy):
        return rules
    if key.authority is None:
        raise ConfigurationError(
            f"policy={rules!r}: the members of this key have no identities; use glue key authority"
        )
    if not os.path.exists(rules):
        return None
    policy = Policy.from_text(read_open(rules, POLICY_SIZE + 1), key.authority)
    if policy is None:
        raise ConfigurationError(
            f"policy={rules!r}: not signed by the authority of the key; sign them with glue key rules"
        )
    return policy


def _keep_policy(path: str, policy: Policy) -> None:
    """Write newer rules, so that older ones are refused after a restart."""
    try:
        write_secret(path, policy.to_text(), replaces=True)
    except OSError as error:
        logger.error("newer rules are in force, but their file is not written: %s", error)


def _without_the_past(key: Key, written_at: float) -> Key:
    """Return the key without an epoch that is over: the overlap has passed since the rotation.

    A file that does not tell when that was is taken to be written at the rotation (`written_at`, Unix seconds).
    """
    begun = key.rotated_at or written_at
    return retire(key) if len(key.epochs) > 1 and time.time() > begun + key.overlap else key


def _identity(key: Key, identity: Any) -> MemberIdentity | None:
    """Return the identity of an endpoint. Raises ConfigurationError if it does not fit the key."""
    if isinstance(identity, str):
        name, identity = identity, MemberIdentity.from_text(read_secret(identity, "identity"), identity)
    else:
        name = repr(identity)
    if identity is None and key.authority is None:
        return None
    if identity is None:
        raise ConfigurationError(
            "identity=None: the members of this key have identities; make one with glue key identity, have it admitted "
            "with glue key admit, and name it by identity=, GLUE_IDENTITY or --identity"
        )
    if not isinstance(identity, MemberIdentity):
        raise ConfigurationError(f"identity={identity!r}: expected the path of an identity file")
    if key.authority is None:
        raise ConfigurationError(f"identity={name}: the members of this key have no identities; use glue key authority")
    if identity.certificate is None or not identity.certificate.is_of(key.authority):
        raise ConfigurationError(f"identity={name}: the authority of the key has not admitted it; use glue key admit")
    if identity.name in key.revoked:
        raise ConfigurationError(
            f"identity={name}: {identity.name} is revoked by the key, so all members refuse it; have the authority "
            "admit an identity of another name (glue key identity, glue key admit)"
        )
    return identity


@lru_cache(maxsize=1)
def fastest_suite() -> Suite:
    """Measure the ciphers on this machine, and return the fastest."""
    return min(SUITES.values(), key=_cost)


def _cost(suite: Suite) -> float:
    encrypt = cipher(suite, bytes(32), b"", b"").encrypt
    encrypt(bytes(12), TRIAL, b"")
    costs = []
    for _ in range(3):  # the best of three, as another thread may run meanwhile
        begun = time.perf_counter()
        for _ in range(TRIALS):
            encrypt(bytes(12), TRIAL, b"")
        costs.append(time.perf_counter() - begun)
    return min(costs)
