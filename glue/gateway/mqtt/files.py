"""Passwords and rules of clients, in files that are read anew when they change.

The password file has a line `USER:scrypt$N$R$P$SALT$HASH` for each user (RFC 7914; salt and hash in hexadecimal). The
rules have the form of mosquitto's ACL files:

    topic read public/#                 for clients without a user name
    user kitchen
    topic readwrite home/kitchen/#      for this user
    topic deny home/kitchen/secret
    pattern write devices/%u/%c/#       for all users; %u is the user name, %c the client id
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
from pathlib import Path

from glue.contract.matching import covers, meet
from glue.errors import ConfigurationError
from glue.gateway.mqtt.codes import BAD_CREDENTIALS, NOT_AUTHORIZED
from glue.gateway.mqtt.identity import READ, WRITE, Identity, Refusal, Remote, Rule
from glue.gateway.mqtt.packets import Connect
from glue.gateway.mqtt.subscriptions import shared_parts

COST, BLOCK, PARALLEL = 1 << 14, 8, 1
"""Parameters of scrypt: 16 MiB and some 50 ms a check, as OWASP's password storage page asks for at least."""

REMEMBERED = 10_000
"""Decisions that are remembered until a file changes: with names of 100 characters some 3 MB."""

logger = logging.getLogger("glue.mqtt")

ACTIONS = {"read": READ, "write": WRITE, "readwrite": READ + WRITE, "deny": ""}


def hashed(password: str) -> str:
    """A password as it stands in the file."""
    salt = os.urandom(16)
    found = _scrypt(password.encode(), salt, COST, BLOCK, PARALLEL)
    return f"scrypt${COST}${BLOCK}${PARALLEL}${salt.hex()}${found.hex()}"


def _scrypt(password: bytes, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return hashlib.scrypt(
        password, salt=salt, n=cost, r=block, p=parallel, maxmem=256 * cost * block * parallel, dklen=32
    )


def is_right(password: bytes, stored: str) -> bool:
    """Whether a password is the one of a hash in the file. Takes some 50 ms."""
    _, cost, block, parallel, salt, expected = stored.split("$")
    found = _scrypt(password, bytes.fromhex(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(found.hex(), expected)


def write_password(path: Path, user: str, password: str | None) -> None:
    """Set a user's password in the file, or remove the user with None; the file is replaced at once, mode 0600.

    Raises ConfigurationError for a user name that the file cannot hold, or for an unknown user to remove; OSError.
    """
    if not user or any(sign in user for sign in ":\n\r"):
        raise ConfigurationError(f"user name {user!r}: expected at least one character, and no colon")
    lines = path.read_text().splitlines() if path.exists() else []
    others = [line for line in lines if not line.startswith(f"{user}:")]
    if password is None and len(others) == len(lines):
        raise ConfigurationError(f"{path}: no user {user!r}")
    if password is not None:
        others.append(f"{user}:{hashed(password)}")
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write("".join(f"{line}\n" for line in others))
    os.replace(new, path)


def read_passwords(path: Path) -> dict[str, str]:
    """Read the password file. Raises ConfigurationError, with the number of a line that is not understood."""
    found = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, stored = line.partition(":")
        if not colon or stored.count("$") != 5 or not stored.startswith("scrypt$"):
            raise ConfigurationError(f"{path}, line {number}: expected USER:scrypt$…, as `glue mqtt passwd` writes it")
        found[user] = stored
    return found


def read_rules(path: Path) -> tuple[dict[str, list[Rule]], list[Rule]]:
    """Read the rules: those of each user ("" without a name), and those for all. Raises ConfigurationError."""
    users: dict[str, list[Rule]] = {"": []}
    everybody: list[Rule] = []
    user = ""
    for number, line in enumerate(_lines(path), 1):
        words = line.split(None, 1)
        if not words or words[0].startswith("#"):
            continue
        kind, rest = words[0], words[1].strip() if len(words) > 1 else ""
        if kind == "user" and rest:
            user = rest
            users.setdefault(user, [])
        elif kind in ("topic", "pattern") and rest:
            first, _, name = rest.partition(" ")
            action, name = (ACTIONS[first], name.strip()) if first in ACTIONS and name else (READ + WRITE, rest)
            (everybody if kind == "pattern" else users[user]).append(Rule(action, name, number))
        else:
            raise ConfigurationError(f"{path}, line {number}: expected `user NAME`, `topic …` or `pattern …`")
    return users, everybody


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


class FileAccess:
    """Decides by a password file and a file of rules; either may be missing.

    Without passwords, `anonymous` and `local_only` decide which clients may connect. Without rules everything is
    allowed.
    """

    def __init__(
        self,
        passwords: Path | None = None,
        rules: Path | None = None,
        anonymous: bool = False,
        local_only: bool = False,
    ) -> None:
        """`anonymous` lets clients in that give no user name; `local_only` only those of this machine.

        Raises ConfigurationError for a file that cannot be read.
        """
        self._paths = {"passwords": passwords, "rules": rules}
        self._anonymous = anonymous
        self._local_only = local_only
        self._passwords: dict[str, str] = {}
        self._rules: tuple[dict[str, list[Rule]], list[Rule]] | None = None
        self._remembered: dict[tuple[str, str, str, str], bool] = {}
        self._stamps: dict[str, object] = {}
        self._read()

    def changed(self) -> bool:
        """Read the files that have changed; whether one has. A wrong file is logged once, and all stays as it is."""
        try:
            return self._read()
        except ConfigurationError as error:
            logger.error("%s; what was read before stays valid", error)
            return False

    def _read(self) -> bool:
        stamps = {name: _stamp(path) for name, path in self._paths.items()}
        if stamps == self._stamps:
            return False
        passwords, rules = self._paths["passwords"], self._paths["rules"]
        self._stamps = stamps  # a file that is wrong is told once
        new_passwords = read_passwords(passwords) if passwords is not None else {}
        new_rules = read_rules(rules) if rules is not None else None
        self._passwords, self._rules = new_passwords, new_rules
        self._remembered.clear()
        return True

    def describe(self) -> str:
        """Describe in a few words which clients may connect."""
        found = [f"users of {self._paths['passwords']}"] if self._paths["passwords"] is not None else []
        if self._anonymous:
            found.append("clients without a user name")
        elif self._local_only:
            found.append("clients of this machine only (--anonymous or --passwords lets others in)")
        return "open to " + " and ".join(found or ["clients with a certificate"])

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        """Decide at once, or return None if there is a password to check."""
        if remote.certificate:
            return Identity(remote.certificate)
        if self._paths["passwords"] is not None and connect.username is not None:
            return None
        if self._anonymous or (self._local_only and remote.is_local):
            return Identity()
        if self._local_only:
            return Refusal(NOT_AUTHORIZED, "clients of other machines need --anonymous or --passwords at the gateway")
        return Refusal(BAD_CREDENTIALS, "a user name and a password are needed")

    def check(self, connect: Connect, remote: Remote) -> Identity | Refusal:
        """Compare the password; takes equally long for an unknown user."""
        stored = self._passwords.get(connect.username or "")
        right = is_right(connect.password or b"", stored or _NOBODY)
        if stored is None or not right:
            return Refusal(BAD_CREDENTIALS, f"wrong user name or password ({connect.username!r})")
        return Identity(connect.username or "")

    def knows(self, identity: Identity) -> bool:
        """Whether a connected user may stay connected."""
        return not identity.user or self._paths["passwords"] is None or identity.user in self._passwords

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool:
        """Whether a rule allows the action, and no rule denies it."""
        if self._rules is None:
            return True
        key = (identity.user, client_id, action, name)
        found = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            found = self._remembered[key] = self._decide(identity.user, client_id, action, name)
        return found

    def refused_by(self, identity: Identity, client_id: str, action: str, name: str) -> str:
        """The line that denies an action, or a text which says that no line allows it."""
        path, denial = self._paths["rules"], self._denial(identity.user, client_id, name)
        if denial is None:
            return f"no rule in {path} allows it"
        return f"{path}, line {denial.line}: deny {denial.topic_filter}"

    def _decide(self, user: str, client_id: str, action: str, name: str) -> bool:
        if self._denial(user, client_id, name) is not None:
            return False
        _, name = shared_parts(name)
        return any(rule.allows(action, name, client_id, user) for rule in self._rules_of(user))

    def narrows(self, identity: Identity, client_id: str, name: str) -> bool:
        """Whether a rule denies some of the topics of a filter."""
        user, (_, name) = identity.user, shared_parts(name)
        return any(meet(rule.filter_for(client_id, user), name) for rule in self._rules_of(user) if not rule.action)

    def _denial(self, user: str, client_id: str, name: str) -> Rule | None:
        """The first rule that denies a client everything about a topic or a topic filter."""
        _, name = shared_parts(name)
        denials = (rule for rule in self._rules_of(user) if not rule.action)
        return next((rule for rule in denials if covers(rule.filter_for(client_id, user), name)), None)

    def _rules_of(self, user: str) -> list[Rule]:
        users, everybody = self._rules or ({}, [])
        return [*users.get(user, ()), *everybody]


def _stamp(path: Path | None) -> object:
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return "missing"
    return status.st_mtime_ns, status.st_size, status.st_ino


_NOBODY = f"scrypt${COST}${BLOCK}${PARALLEL}${'00' * 16}${'00' * 32}"
