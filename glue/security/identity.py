"""Identities: an Ed25519 key for each member, and a certificate of the plant's authority for its name and rights.

A certificate is one JSON document and the authority's signature over its bytes. The document states the member's name,
public key, end of validity and rights (see `rules`). All files are JSON, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

import orjson

from glue.errors import ConfigurationError
from glue.security.rules import Rule, read_rules
from glue.security.signing import PUBLIC_SIZE as PUBLIC_SIZE
from glue.security.signing import is_signed, sign
from glue.security.signing import public_of as public_of

CERTIFICATE_SIZE: Final = 1000
"""Bytes of a certificate's document at most, so that it fits into one datagram with a hello."""

_CERTIFICATE: Final = b"glue1 certificate\0"


@dataclass(frozen=True)
class Certificate:
    """The statement of the authority about a member; `document` is the signed bytes."""

    name: str
    public: bytes
    until: float | None
    rules: tuple[Rule, ...]
    document: bytes
    signature: bytes

    @classmethod
    def make(cls, authority: bytes, name: str, public: bytes, until: float | None, rules: list[Any]) -> Certificate:
        """Sign a certificate with the secret of the authority. Raises ConfigurationError for wrong rules."""
        document = orjson.dumps({"name": name, "public": public.hex(), "until": until, "rules": rules})
        if len(document) > CERTIFICATE_SIZE:
            raise ConfigurationError(f"the certificate has {len(document)} bytes; at most {CERTIFICATE_SIZE} fit")
        made = cls.parse(document, sign(authority, _CERTIFICATE + document))
        if made is None:
            raise ConfigurationError(f"the rules of {name!r} are wrong: {rules!r}")
        return made

    @classmethod
    def parse(cls, document: bytes, signature: bytes) -> Certificate | None:
        """From its document; None if it is malformed. The signature is not checked."""
        try:
            values = orjson.loads(document)
            name, public, until = values["name"], bytes.fromhex(values["public"]), values["until"]
            rules = read_rules([{**rule, "who": name} for rule in values["rules"]])
        except (ValueError, LookupError, TypeError):
            return None
        if (
            type(name) is not str
            or not name
            or len(public) != PUBLIC_SIZE
            or type(until) not in (int, float, type(None))
        ):
            return None
        return cls(name, public, until, rules, document, signature)

    @property
    def end(self) -> float:
        """When it ends (Unix seconds); inf if never."""
        return inf if self.until is None else self.until

    def is_of(self, authority: bytes) -> bool:
        """Whether the authority with this public key signed it."""
        return is_signed(authority, self.signature, _CERTIFICATE + self.document)


@dataclass(frozen=True)
class MemberIdentity:
    """A member's name and secret, and its certificate once the authority has admitted it."""

    name: str
    secret: bytes
    certificate: Certificate | None = None

    def __repr__(self) -> str:
        return f"<MemberIdentity {self.name!r}>"

    def admitted(self, authority: bytes, until: float | None, rules: list[Any]) -> MemberIdentity:
        """Return the identity with a certificate that is signed with the authority's secret."""
        return replace(self, certificate=Certificate.make(authority, self.name, public_of(self.secret), until, rules))

    def to_text(self) -> str:
        """The content of an identity file. It is secret."""
        document: dict[str, Any] = {"glue identity": 1, "name": self.name, "secret": self.secret.hex()}
        if self.certificate is not None:
            document["certificate"] = self.certificate.document.decode()
            document["signature"] = self.certificate.signature.hex()
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"

    @classmethod
    def from_text(cls, text: str | bytes, source: str) -> MemberIdentity:
        """Read the content of an identity file. Raises ConfigurationError."""
        try:
            values = orjson.loads(text)
            name, secret = values["name"], bytes.fromhex(values["secret"])
            certificate = None
            if "certificate" in values:
                certificate = Certificate.parse(values["certificate"].encode(), bytes.fromhex(values["signature"]))
        except (ValueError, LookupError, TypeError, AttributeError):
            name, secret = "", b""
        if type(name) is not str or not name or len(secret) != PUBLIC_SIZE:
            raise ConfigurationError(
                f"{source} is damaged, or no identity: copy it again, or make one with: glue key identity NAME FILE"
            )
        return cls(name, secret, certificate)


def authority_text(secret: bytes) -> str:
    """The content of an authority's file. It is secret."""
    document = {"glue authority": 1, "secret": secret.hex()}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def read_authority(text: str | bytes, source: str) -> bytes:
    """Return the secret in an authority's file. Raises ConfigurationError."""
    try:
        secret = bytes.fromhex(orjson.loads(text)["secret"])
        if len(secret) == PUBLIC_SIZE and orjson.loads(text)["glue authority"] == 1:
            return secret
    except (ValueError, LookupError, TypeError):
        pass
    raise ConfigurationError(
        f"{source} is damaged, or no authority: copy it again, or make one with: glue key authority FILE"
    )
