"""Why the door's codec and another one differ: rules for the differences that `mqtt_codecs.py` finds.

A rule gives the statement of the specifications that the door keeps, for MQTT 5 and, in brackets, for 3.1.1. It gives
"role" where the door refuses what only a server sends: the other codecs read for servers and clients alike.
"""

from __future__ import annotations

import re
from typing import Any

from glue.gateway.mqtt import codes

REFUSED = (
    (r"^a \w+ from a client$|^a PUBLISH of a client with a sub", "role: only a server sends this packet"),
    (r"^reason code \w+ in a \w+ from a client|^a server reference", "role: only a server sends this reason"),
    (r"^flags |^a CONNECT before", "2.1.3-1, 3.1.2-3 (2.2.2-1): reserved flags, also before the rest has come"),
    (r"^a packet id", "2.2.1-3, 2.2.1-5 (2.3.1-1): a packet id is there and not 0"),
    (r"^a string is not UTF-8", "1.5.4-1 (1.5.3-1): strings are UTF-8"),
    (r"^a string has U\+0000", "1.5.4-2 (1.5.3-2): no U+0000 in strings"),
    (r"longer than it must be|more bytes than it needs", "1.5.5-1: integers are as short as possible"),
    (r"^the length .* not end|^a variable byte integer does not", "section 1.5.5 (2.2.3): an integer has four bytes"),
    (r"bytes after a ", "section 2.1.4 (2.2.3): nothing comes after the last field"),
    (
        r"^a field is|^a property ends|^the properties of|ends early",
        "sections 1.5, 2.2.2.1: a field ends in its packet",
    ),
    (r"^property \w+ in a ", "section 2.2.2.2: properties stand in packets of their own"),
    (r"^property \w+ twice", "section 2.2.2.2: a property stands once"),
    (r"^property \w+ of ", "sections 3.1 to 3.3: values of properties"),
    (r"^authentication data|^an AUTH without", "sections 3.1.2.11.10, 3.15.2.2.2: a method comes with its data"),
    (r"^reason code", "3.4.2-1 to 3.15.2-1: reason codes of the packet's list"),
    (r"^filter |^an empty topic", "4.7.1-1, 4.7.1-2, 4.7.3-1 (4.7.1-2, 4.7.1-3, 4.7.3-1): filters"),
    (r"^shared subscription .* expected$", "4.8.2-1, 4.8.2-2: a shared subscription has a name and a filter"),
    (r"that wants no own messages", "3.8.3-4: a shared subscription has no No Local"),
    (r"^topic ", "3.3.2-2, 3.3.2-14, 4.7.3-1 (3.3.2-2, 4.7.3-1): names of topics"),
    (r"without a topic filter", "3.8.3-2, 3.10.3-2 (3.8.3-3, 3.10.3-2): at least one filter"),
    (r"^options ", "3.8.3-5 (3.8.3-4): reserved bits of options"),
    (r"of QoS 0 that says", "3.3.1-2 (3.3.1-2): no DUP with QoS 0"),
    (r"both bits of QoS", "3.3.1-4 (3.3.1-4): QoS 3"),
    (r"^a password without", "(3.1.2-22): no password without a user name"),
    (r"^protocol ", "3.1.2-1, 3.1.2-2 (3.1.2-1, 3.1.2-2): name and version of the protocol"),
    (r" are allowed$", "section 3.2.2.3.6: a CONNECT is at most 1 MB, before the rest has come"),
)
"""What glue says where it refuses, and why it is right. The first that fits counts."""

WAITS = (
    (r"header flag bits|both QoS bits", "2.1.3-1, 3.3.1-4: mqtt-packet looks at the flags, glue first at the length"),
    (r"^Invalid variable byte integer", "1.5.5-1: a CONNECT; glue waits for the version, as 3.1.1 has no such rule"),
)
"""What the other codec says where glue waits for more bytes, and refuses as well once they are there."""


def reason_of(peer: str, data: bytes, mine: Any, theirs: Any) -> str | None:
    """Why glue and the other codec differ about a packet; None if there is no reason that we know."""
    if isinstance(mine, str):
        return _first(REFUSED, mine)
    if mine is None:
        return _first(WAITS, theirs) if isinstance(theirs, str) else None
    if peer == "mqtt-packet":
        if data[0] == codes.DISCONNECT << 4 and data[1] < 2 and len(data) > 2 + data[1]:
            return "sections 3.14.2.1, 3.14.2.2.1: mqtt-packet reads on behind the packet"
        if isinstance(theirs, dict) and _without_empty(mine) == _without_empty(theirs):
            return "3.3.2-17: mqtt-packet loses an empty user property before another of its name"
    return None


def _first(rules: tuple[tuple[str, str], ...], text: str) -> str | None:
    return next((reason for pattern, reason in rules if re.search(pattern, text)), None)


def _without_empty(fields: Any) -> Any:
    """Fields without empty values of a user property, but for one that is the last of its name."""
    if not isinstance(fields, dict):
        return fields
    found = {name: _without_empty(value) for name, value in fields.items()}
    for name, values in found.get("user_property", {}).items():
        if isinstance(values, list):
            kept = [value for value in values[:-1] if value] + values[-1:]
            found["user_property"][name] = kept if len(kept) > 1 else kept[0]
    return found
