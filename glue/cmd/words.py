"""Lines that are typed into a command: taken apart into words, and checked.

JSON keeps its quotes and its spaces without quotes around it, unlike in a shell: `set valve/1 {"open": true}` has three
words. `usages` tells for each command which words follow it, such as "KEY VALUE"; those in brackets may be left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from glue.cmd.output import printable
from glue.errors import ConfigurationError

BEGINNINGS = ("{", "[", '"')
"""Of JSON values that nothing but JSON begins with, as good as ever."""

VALUES = ("VALUE", "DELTA", "EXPECTED")
"""Words that are read as JSON; all others are names, whose quotes are taken off."""

WORD = re.compile(r"'(?P<quoted>[^']*)'(?=\s|$)|(?P<plain>\S+)")


def typed_words(line: str, usages: Mapping[str, str]) -> list[str]:
    """The words of a line; single quotes make one word, as in a shell.

    Raises ConfigurationError for what begins like JSON and is none.
    """
    words: list[str] = []
    line = line.strip()
    while line:
        if line.startswith(BEGINNINGS):
            end = _json_end(line)
            word = line[:end]
            if word.startswith('"') and not _is_value(words, usages):
                word = str(json.loads(word))
        else:
            found = WORD.match(line)
            assert found is not None
            end = found.end()
            word = found["plain"] if found["quoted"] is None else found["quoted"]
        words.append(word)
        line = line[end:].lstrip()
    return words


def check_words(words: Sequence[str], usages: Mapping[str, str]) -> None:
    """Raise ConfigurationError unless these words are a command with as many words behind it as it wants."""
    name, *rest = words
    check_name(name, usages)
    wanted = usages[name].split()
    if not sum(not word.startswith("[") for word in wanted) <= len(rest) <= len(wanted):
        hint = "; a value with spaces goes in quotes" if len(rest) > len(wanted) else ""
        raise ConfigurationError(f"expected: {f'{name} {usages[name]}'.strip()}{hint}")


def check_name(name: str, usages: Mapping[str, str]) -> None:
    """Raise ConfigurationError unless there is such a command."""
    if name not in usages:
        raise ConfigurationError(f"no command {name!r}; there are {', '.join(usages)}")


def _json_end(line: str) -> int:
    """Where the JSON value that a line begins with ends; the next word begins behind a space."""
    try:
        end = json.JSONDecoder().raw_decode(line)[1]
    except (ValueError, RecursionError):
        end = 0
    if not end or line[end : end + 1].strip():
        raise ConfigurationError(f"{printable(line)} begins like JSON, but is none")
    return end


def _is_value(before: Sequence[str], usages: Mapping[str, str]) -> bool:
    """Whether the word behind these is read as JSON."""
    wanted = usages.get(before[0], "").split() if before else []
    return 0 < len(before) <= len(wanted) and wanted[len(before) - 1] in VALUES
