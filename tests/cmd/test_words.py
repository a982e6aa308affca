"""Lines that are typed: JSON keeps its quotes and spaces, names lose theirs."""

from __future__ import annotations

import pytest

from glue.cmd import main
from glue.cmd.model import USAGES
from glue.cmd.words import check_words, typed_words
from glue.errors import ConfigurationError


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('set valve/1 {"open": true}', ["set", "valve/1", '{"open": true}']),
        ('  compare a {"x":1}   [2, "b c"]\n', ["compare", "a", '{"x":1}', '[2, "b c"]']),
        ("set a '{\"x\": 1}'", ["set", "a", '{"x": 1}']),
        ('set a "b c"', ["set", "a", '"b c"']),
        ("set a 'b c'", ["set", "a", "b c"]),
        ("set a it's", ["set", "a", "it's"]),
        ("set a 21.5", ["set", "a", "21.5"]),
        ('get "my key"', ["get", "my key"]),
        ('add tags/x "light blue"', ["add", "tags/x", "light blue"]),
        ('"set" a b', ["set", "a", "b"]),
        ('paint "a b" "c d"', ["paint", "a b", "c d"]),
        ('set a b "c d"', ["set", "a", "b", "c d"]),
        ('compare "my key" "a b" "c d"', ["compare", "my key", '"a b"', '"c d"']),
        ('"help" "set"', ["help", "set"]),
        ("", []),
        (" \t\n", []),
    ],
)
def test_a_line_is_taken_apart(line: str, words: list[str]) -> None:
    assert typed_words(line, USAGES) == words


@pytest.mark.parametrize("line", ['set a {"open": true', "set a {open: true}", 'set a "b', 'set a "b"c', "set a [" * 2])
def test_what_begins_like_json_and_is_none_is_refused(line: str) -> None:
    with pytest.raises(ConfigurationError, match="begins like JSON, but is none"):
        typed_words(line, USAGES)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["paint"], "no command 'paint'; there are get, items"),
        (["set", "a"], "expected: set KEY VALUE$"),
        (["set", "a", "b", "c"], "expected: set KEY VALUE; a value with spaces goes in quotes"),
    ],
)
def test_wrong_words_are_refused(words: list[str], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        check_words(words, USAGES)


def test_help_tells_what_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["model", "help"]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) == len(USAGES)
    assert "compare KEY EXPECTED VALUE" in said
    assert main.main(["model", "help", "lock"]) == 0
    assert capsys.readouterr().out.startswith("lock NAME [LEASE]")
    assert main.main(["model", "help", "paint"]) == 2
