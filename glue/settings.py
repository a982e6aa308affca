"""An endpoint's settings: each from a keyword, else from an environment variable, else its default.

Name, type, default and meaning of a setting are defined only here. The command line, the documentation and the printout
of the effective configuration use these definitions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any, Literal, get_args

from glue.contract import RENDEZVOUS_PORT, Address
from glue.contract.frozen import Frozen
from glue.errors import ConfigurationError

PREFIX = "GLUE_"
WRITTEN_ADDRESS = r"(?:\[(?P<bracketed>[^]]+)\]|(?P<plain>[^]:[]+))(?::(?P<port>[0-9]{1,5}))?"


Discovery = Literal["multicast", "dns-sd"]
"""The ways to find peers."""


class Converter(Frozen):
    """How a setting is read. Both functions raise ValueError for a value that is not `wanted`."""

    wanted: str
    from_keyword: Callable[[Any], Any]
    from_text: Callable[[str], Any]
    """Called with the text of an environment variable."""


def _instance(*kinds: type) -> Callable[[Any], Any]:
    """Return a function that checks a value's type. True and False pass only as bool."""

    def check(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ValueError(value)
        return value

    return check


def _number(value: Any) -> float:
    return float(_instance(int, float)(value))


def _truth(text: str) -> bool:
    if text.lower() not in TRUTHS:
        raise ValueError(text)
    return TRUTHS[text.lower()]


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise ValueError(value)
    return tuple(value)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _interface(value: Any) -> str | tuple[str, ...]:
    """Check a keyword for interfaces: a name, names with commas between, or a list of names."""
    names = _split(value) if isinstance(value, str) else _texts(value)
    return names[0] if len(names) == 1 else names


def _key(value: Any) -> Any:
    """Check a keyword for a secret: the path of its file, or the secret itself, which has no other plain type."""
    if isinstance(value, (str, PathLike)):
        return str(fspath(value))
    if isinstance(value, (bytes, int, float, list, tuple, dict)):
        raise ValueError(value)
    return value


TRUTHS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}

TEXT = Converter("text", _instance(str), str)
INTEGER = Converter("a whole number", _instance(int), int)
NUMBER = Converter("a number", _number, float)
TRUTH = Converter("true or false", _instance(bool), _truth)
FILE = Converter("the path of a file", _key, str)
TEXTS = Converter("a list of text", _texts, _split)
INTERFACE = Converter("the name of an interface, or a list of names", _interface, _interface)

LINKS = 4  # interfaces of one endpoint, at most: as many as the addresses of a peer that are remembered


class Setting(Frozen):
    """The declaration of a setting: its default, how it is read, and what it means."""

    default: Any
    converter: Converter
    help: str


def setting(default: Any, converter: Converter, help: str) -> Any:
    """Declare a setting, as the default value of a field of `Settings`."""
    return Setting(default, converter, help)


class Settings(Frozen):
    """The effective settings of one endpoint; immutable once made.

    `sources` tells where each value came from: "keyword", "environment" or "default".
    """

    name: str | None = setting(
        None, TEXT, "the endpoint's name, unique on the network (default: host and a random suffix)"
    )
    interface: str | tuple[str, ...] | None = setting(
        None, INTERFACE, "network interface by name, such as en0, or several (default: one is chosen, with its reason)"
    )
    network_id: int = setting(1, INTEGER, "endpoints ignore those with another network id (0 to 65535)")
    multicast_address: str = setting("239.192.137.1:37320", TEXT, "multicast group and port; [group]:port for IPv6")
    listen_port: int = setting(0, INTEGER, "UDP port for unicast (0: any free one)")
    announce_interval: float = setting(1.0, NUMBER, "seconds between announcements")
    lease_intervals: float = setting(
        5.0, NUMBER, "a peer silent for this many of its intervals, or a minute, is removed"
    )
    sleep: float | None = setting(
        None, NUMBER, "seconds that this endpoint may stay asleep between its moments awake (default: always awake)"
    )
    message_limit: int = setting(256 << 20, INTEGER, "the largest message in bytes")
    queue_limit: int = setting(4 << 20, INTEGER, "bytes published and not yet acknowledged, above which publish blocks")
    receive_limit: int = setting(
        32 << 20, INTEGER, "bytes received and not yet handled, above which senders are stopped"
    )
    receive_buffer: int = setting(32 << 20, INTEGER, "bytes of socket receive buffer to ask the kernel for")
    offload: bool = setting(True, TRUTH, "use UDP_SEGMENT and UDP_GRO where the kernel has them")
    spin: float = setting(0.0005, NUMBER, "seconds to poll before sleeping while answers come that fast (0: never)")
    sched_batch: bool = setting(
        True, TRUTH, "wait with the policy SCHED_BATCH (Linux) while a stream comes in that goes to several endpoints"
    )
    malloc_threshold: int = setting(
        16 << 20,
        INTEGER,
        "freed blocks up to so many bytes stay with glibc's malloc, for the whole process (0: as it is)",
    )
    parity: float | None = setting(
        None, NUMBER, "parity beside each burst of frames, as a share of it (default: by the loss seen; 0: none)"
    )
    discovery: Discovery = setting("multicast", TEXT, "how peers are found: multicast or dns-sd")
    key: Any = setting(
        None, FILE, "key file of the group: seal all datagrams, and hear only endpoints with the same key"
    )
    identity: Any = setting(None, FILE, "identity file of this endpoint, where members of the group have identities")
    policy: Any = setting(None, FILE, "file of the signed rules; newer rules that come from the network are kept there")
    storage_key: Any = setting(
        None, FILE, "key file of what this endpoint stores: seal the files of its models and keepers"
    )
    peers: tuple[str, ...] = setting(
        (), TEXTS, "addresses, host or host:port, to look for peers at where multicast is blocked"
    )
    consumer_alert: float = setting(
        60.0, NUMBER, "seconds without progress after which a durable consumer kept here counts as stuck"
    )
    doctor: bool = setting(True, TRUTH, "answer the questions of `glue doctor` and like tools, from peers only")
    sources: Mapping[str, str] = MappingProxyType({})

    def __post_init__(self) -> None:
        self._check(0 <= self.network_id <= 65535, "network_id", "a number from 0 to 65535")
        self._check(0 <= self.listen_port <= 65535, "listen_port", "a port from 0 to 65535")
        self._check(0.01 <= self.announce_interval <= 3600, "announce_interval", "0.01 to 3600 seconds")
        self._check(1.5 <= self.lease_intervals <= 1000, "lease_intervals", "1.5 to 1000 intervals")
        self._check(self.sleep is None or 0.05 <= self.sleep <= 86400, "sleep", "0.05 to 86400 seconds")
        self._check(0.1 <= self.consumer_alert <= 604_800, "consumer_alert", "0.1 to 604800 seconds")
        self._check(0 <= self.spin <= 0.1, "spin", "0 to 0.1 seconds")
        self._check(0 <= self.malloc_threshold <= 32 << 20, "malloc_threshold", "0 to 33554432 bytes")
        self._check(self.parity is None or 0 <= self.parity <= 1, "parity", "a share from 0 to 1")
        self._check(self.discovery in get_args(Discovery), "discovery", "multicast or dns-sd")
        self._check(self.name is None or 0 < _utf8_size(self.name) <= 255, "name", "1 to 255 bytes of UTF-8")
        links = self.links
        is_list = len(set(links)) == len(links) <= LINKS and all(links) and self.interface not in ("", ())
        self._check(is_list, "interface", f"1 to {LINKS} names of interfaces, each only once")
        is_multicast = len(links) < 2 or self.discovery == "multicast"
        self._check(is_multicast, "discovery", "multicast, as there are several interfaces")
        for name in ("message_limit", "queue_limit", "receive_limit", "receive_buffer"):
            self._check(1 <= getattr(self, name) <= 1 << 40, name, "a positive number of bytes")
        is_ipv6 = self.multicast_address.startswith("[")
        wanted = (
            "IPv6 addresses, such as [fd00::5], as the group's is" if is_ipv6 else "addresses such as 10.0.0.5:7000"
        )
        addresses = [_address(peer) for peer in self.peers]
        self._check(all(found and (len(found) == 4) == is_ipv6 for found in addresses), "peers", wanted)

    @property
    def links(self) -> tuple[str, ...]:
        """The names of several interfaces; empty if one is named, or none."""
        return self.interface if isinstance(self.interface, tuple) else ()

    @property
    def one_interface(self) -> str | None:
        """The interface that is named, the first of several; None if none is."""
        return self.interface[0] if isinstance(self.interface, tuple) else self.interface

    @property
    def contacts(self) -> list[Address]:
        """The addresses of `peers` as `socket` represents them."""
        return [address for peer in self.peers if (address := _address(peer)) is not None]

    def _check(self, good: bool, name: str, wanted: str) -> None:
        if not good:
            told = variable(name) if self.source(name) == "environment" else name
            raise ConfigurationError(f"{told}={getattr(self, name)!r}: expected {wanted}")

    def source(self, name: str) -> str:
        """Return where this setting's value came from."""
        return self.sources.get(name, "default")

    def describe(self) -> str:
        """Describe all settings, one a line: value and source."""
        width = max(map(len, SETTINGS))
        return "\n".join(f"{name:{width}}  {getattr(self, name)!s:24}  {self._origin(name)}" for name in SETTINGS)

    def _origin(self, name: str) -> str:
        source = self.source(name)
        return f"{source} {variable(name)}" if source == "environment" else source


SETTINGS = {name: declared for name, declared in vars(Settings).items() if isinstance(declared, Setting)}
"""The declarations by name."""

for _name, _declared in SETTINGS.items():
    setattr(Settings, _name, _declared.default)


def _address(text: str) -> Address | None:
    """Parse a unicast address, with the usual port if it has none; None if it is malformed."""
    from ipaddress import ip_address  # imported here: most programs name no addresses

    written = re.fullmatch(WRITTEN_ADDRESS, text)
    bare = text if written is None else written["bracketed"] or written["plain"]
    port = RENDEZVOUS_PORT if written is None or written["port"] is None else int(written["port"])
    try:
        found = ip_address(bare)
    except ValueError:
        return None
    if found.is_multicast or found.is_unspecified or "%" in bare or not 0 < port <= 65535:
        return None
    return (str(found), port) if found.version == 4 else (str(found), port, 0, 0)


def _utf8_size(text: str) -> int:
    """Return the size in UTF-8 (bytes); 0 for text with a lone surrogate, which has no UTF-8."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def effective(keywords: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """Return settings from keywords, then GLUE_… variables, then defaults; a keyword of None means "not given".

    Raises ConfigurationError for an unknown keyword, and for a value of the wrong type or out of range.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name in keywords:
        if name not in SETTINGS:
            raise ConfigurationError(f"unknown setting {name!r}; known are {', '.join(sorted(SETTINGS))}")
    for name, declared in SETTINGS.items():
        converter = declared.converter
        if keywords.get(name) is not None:
            values[name], sources[name] = _converted(converter, converter.from_keyword, name, keywords[name]), "keyword"
        elif text := environment.get(variable(name)):
            values[name], sources[name] = (
                _converted(converter, converter.from_text, variable(name), text),
                "environment",
            )
    return Settings(**values, sources=sources)


def _converted(converter: Converter, convert: Callable[[Any], Any], told: str, value: Any) -> Any:
    """Convert a value. Raises ConfigurationError for one of the wrong type; `told` is the name in its message."""
    try:
        return convert(value)
    except ValueError:
        raise ConfigurationError(f"{told}={value!r}: expected {converter.wanted}") from None
