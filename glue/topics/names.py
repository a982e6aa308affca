"""Topic names and patterns: checks with errors that say what is wrong, and where.

The rules are those of MQTT 3.1.1, section 4.7. Levels are separated by `/` and may be empty. `+` stands for one whole
level. `#`, only as the last level, stands for any number of levels, including none. `index.py` matches names.
"""

from __future__ import annotations

from glue.errors import ConfigurationError, TopicError

NAME_LIMIT = 65_535
"""Bytes of UTF-8 in a topic or pattern: what MQTT's two-byte length can say."""

TYPE_LIMIT = 255
"""Bytes of UTF-8 in a type tag: it travels with every group of messages."""


def check_topic(topic: str) -> None:
    """Raise TopicError unless messages can be published to `topic`."""
    _check_name(topic, "topic")
    if "+" in topic or "#" in topic:
        position, wildcard = min((topic.index(sign), sign) for sign in "+#" if sign in topic)
        raise TopicError(
            f"topic {_shown(topic)}: {wildcard!r} at character {position} is a wildcard; wildcards are for patterns"
        )


def check_pattern(pattern: str) -> None:
    """Raise TopicError unless `pattern` can be subscribed to; a topic without wildcards is a pattern, too."""
    _check_name(pattern, "pattern")
    if not is_wildcard(pattern):
        return
    levels = pattern.split("/")
    for number, level in enumerate(levels):
        if len(level) > 1 and ("+" in level or "#" in level):
            raise TopicError(
                f"pattern {_shown(pattern)}: level {number} is {_shown(level)}; a wildcard must be a whole level"
            )
        if level == "#" and number < len(levels) - 1:
            raise TopicError(f"pattern {_shown(pattern)}: '#' at level {number} must be the last level")


def check_type(tag: str) -> None:
    """Raise ConfigurationError unless `tag` can be a publication's type."""
    try:
        size = len(tag.encode())
    except (AttributeError, UnicodeEncodeError):
        size = 0
    if not 1 <= size <= TYPE_LIMIT:
        raise ConfigurationError(f"type={tag!r:.80}: expected a string of 1 to {TYPE_LIMIT} bytes of UTF-8")


def is_wildcard(pattern: str) -> bool:
    """Whether a well-formed pattern can match more than one topic."""
    return "+" in pattern or "#" in pattern


def _check_name(name: str, what: str) -> None:
    if not isinstance(name, str):
        raise TopicError(f"{what} {name!r:.80}: expected a string")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise TopicError(f"{what} {_shown(name)}: lone surrogate at character {error.start}") from None
    if not name:
        raise TopicError(f"the {what} is empty; expected 1 to {NAME_LIMIT} bytes of UTF-8")
    if size > NAME_LIMIT:
        raise TopicError(f"{what} {_shown(name)}: {size} bytes; expected 1 to {NAME_LIMIT} bytes of UTF-8")
    if "\0" in name:
        raise TopicError(f"{what} {_shown(name)}: NUL at character {name.index(chr(0))}")


def _shown(name: str) -> str:
    """A name for a message: quoted, and cut where it would flood the screen."""
    return repr(name) if len(name) <= 80 else f"{name[:77]!r}…"
