"""Settings, names and files that people write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson

from glue.contract.matching import meet
from glue.errors import ConfigurationError, GlueError
from glue.gateway.http.guard import check_url
from glue.gateway.http.limits import Limits
from glue.gateway.http.subscriptions import Subscription, changed, subscription_of
from glue.gateway.http.tokens import read_entries
from glue.gateway.mqtt.files import read_passwords, read_rules
from glue.metrics.server import parse_address
from glue.model.state import Pattern
from glue.model.state.patterns import check_key, check_name
from glue.receivers.address import parse
from glue.settings import SETTINGS, effective, variable
from glue.topics.names import check_pattern, check_topic, check_type, is_wildcard
from tests.fuzz.registry import joined, split, target
from tests.fuzz.targets.captures import file

NAMES = sorted(SETTINGS)
VALUES = (b"7", b"1e3", b"yes", b"239.1.2.3:7400", b"[ff02::1%lo]:7400", b"10.0.0.5,10.0.0.6:7000", b"auto", b"a\nb")


def text_of(data: bytes) -> str:
    """Bytes as the environment and the command line give them to a program."""
    return data.decode(errors="surrogateescape")


def seeds() -> list[bytes]:
    """Each setting with each value."""
    return [bytes((place,)) + value for place in range(len(NAMES)) for value in VALUES]


@target("settings", seeds, ConfigurationError)
def settings(data: bytes) -> None:
    """A setting by its number, from the environment and as a keyword."""
    name, text = NAMES[data[0] % len(NAMES) if data else 0], text_of(data[1:])
    for keywords, environment in (({}, {variable(name): text}), ({name: text}, {})):
        with suppress(ConfigurationError):
            made = effective(keywords, environment)
            made.describe()
            assert isinstance(made.contacts, list)


CHECKS: tuple[Callable[[Any], object], ...] = (
    check_topic, check_pattern, check_type, check_key, check_name, parse, parse_address, check_url, Pattern,
)  # fmt: skip


TEXTS = b"a/b/#", b"+/a", b"receiver:a/1", b"127.0.0.1:9100", b"http://host:80/a?b", b"[::1]:7", "ü/é".encode()


@target("names", lambda: TEXTS)
def names(data: bytes) -> None:
    """Topics, patterns, keys, addresses and URLs."""
    text = text_of(data)
    for check in CHECKS:
        with suppress(GlueError):
            check(text)
    with suppress(GlueError):
        check_pattern(text)
        is_wildcard(text)
        meet(text, "a/+/b/#")
        meet("a/b", text)


TOKENS = (
    b'{"name":"a","hash":"00","publish":["#"],"subscribe":[],"admin":true}\n\n'
    b'{"name":"b","hash":"","publish":[],"subscribe":["a/+"]}'
)
PASSWORDS = b"user:scrypt$16384$8$1$c2FsdA==$aGFzaA==\n# x"
RULES = b"user a\ntopic read a/#\npattern write %c/+\ntopic b"
CHANGES = (
    b'{"url":"http://h/","parallel":2,"timeout":5,"secret":"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",'
    b'"state":"paused","give_up_after":null}'
)


@target("tokens", lambda: [TOKENS], ConfigurationError)
def tokens(data: bytes) -> None:
    """The file of tokens of the HTTP door."""
    from glue.gateway.http.tokens import Access

    with file(data, "tokens") as path:
        read_entries(path)
        Access(path).rights("token", "name")


@target("mqtt-files", lambda: [PASSWORDS, RULES], ConfigurationError)
def mqtt_files(data: bytes) -> None:
    """The files of passwords and rules of the MQTT door."""
    with file(data, "file") as path:
        for read in (read_passwords, read_rules):
            with suppress(ConfigurationError):
                read(path)


KNOWN = Subscription("id", "a/#", "http://127.0.0.1/")


@target("subscription", lambda: [joined([orjson.dumps(KNOWN.stored()), CHANGES])], GlueError, ValueError)
def subscription(data: bytes) -> None:
    """A stored subscription of the HTTP door, and the changes that a client wants."""
    stored, wanted = ([*split(data, 2), b"", b""])[:2]
    for document, read in ((stored, subscription_of), (wanted, lambda it: changed(KNOWN, it, Limits()))):
        with suppress(GlueError, ValueError):
            loaded = orjson.loads(document)
            if isinstance(loaded, dict):
                read(loaded)
