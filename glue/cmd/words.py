"""Typed lines of a command: split into words and checked.

Unlike in a shell, JSON keeps its quotes and spaces: `set valve/1 {"open": true}` has three words. The `usages` give the
arguments of each command, such as "KEY VALUE". Arguments in brackets may be left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from glue.cmd.output import printable
from glue.errors import ConfigurationError

BEGINNINGS = ("{", "[", '"')
"""Beginnings that a text hardly has unless it is JSON."""

VALUES = ("VALUE", "DELTA", "EXPECTED")
"""Arguments that are read as JSON. The others are names: their quotes are removed."""

WORD = re.compile(r"'(?P<quoted>[^']*)'(?=\s|$)|(?P<plain>\S+)")


def typed_words(line: str, usages: Mapping[str, str]) -> list[str]:
    """Split a line into words; single quotes make one word, as in a shell.

    Raises ConfigurationError for a word that begins like JSON and is not.
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
    """Raise ConfigurationError unless these words are a command with a fitting number of arguments."""
    name, *rest = words
    check_name(name, usages)
    wanted = usages[name].split()
    if not sum(not word.startswith("[") for word in wanted) <= len(rest) <= len(wanted):
        hint = "; a value with spaces goes in quotes" if len(rest) > len(wanted) else ""
        raise ConfigurationError(f"expected: {f'{name} {usages[name]}'.strip()}{hint}")


def check_name(name: str, usages: Mapping[str, str]) -> None:
    """Raise ConfigurationError unless this is the name of a command."""
    if name not in usages:
        raise ConfigurationError(f"no command {name!r}; there are {', '.join(usages)}")


def _json_end(line: str) -> int:
    """Return the end of the JSON value at the start of a line. A space or nothing must follow."""
    try:
        end = json.JSONDecoder().raw_decode(line)[1]
    except (ValueError, RecursionError):
        end = 0
    if not end or line[end : end + 1].strip():
        raise ConfigurationError(f"{printable(line)} begins like JSON, but is none")
    return end


def _is_value(before: Sequence[str], usages: Mapping[str, str]) -> bool:
    """Whether the next word after these is read as JSON."""
    wanted = usages.get(before[0], "").split() if before else []
    return 0 < len(before) <= len(wanted) and wanted[len(before) - 1] in VALUES
