"""The completion scripts of small commands, word for word."""

from __future__ import annotations

import argparse
import sys
from types import SimpleNamespace

import pytest

from glue.cmd import completion
from glue.cmd.completion import Option

COMMANDS = {"demo": "it's shown", "key": "make: a key"}
FOUND = {
    "demo": [
        Option("--file", "the file", (), True, True), Option("--json", "it's [JSON]: yes", (), False, False),
        Option("--kind", "which", ("a", "b"), True, True), Option("--rate", "how often", (), True, False),
    ],
    "key": [],
}  # fmt: skip


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "COMMANDS", COMMANDS)
    monkeypatch.setattr(completion, "options", lambda command: reversed(FOUND[command]))


def test_bash() -> None:
    lines = completion.script("bash").splitlines()
    word = '-- "$word"'
    assert lines[5] == f"        COMPREPLY=($(compgen -W 'demo key --help --version' {word}))"
    assert lines[8:12] == [
        '    case "$command:${COMP_WORDS[COMP_CWORD - 1]}" in',
        f"            demo:--kind) COMPREPLY=($(compgen -W 'a b' {word})); return;;",
        f"            demo:--file|demo:--kind) COMPREPLY=($(compgen -f {word})); return;;",
        "    esac",
    ]
    assert lines[12:16] == [
        '    case "$command" in',
        f"        demo) COMPREPLY=($(compgen -W '--file --json --kind --rate' {word}));;",
        f"        key) COMPREPLY=($(compgen -W  {word}));;",
        "    esac",
    ]


def test_zsh() -> None:
    lines = completion.script("zsh").splitlines()
    assert lines[0] == "#compdef glue"
    assert lines[3:5] == ["        'demo:it’s shown'", "        'key:make: a key'"]
    options = [
        "'--file[the file]:file:_files'", "'--json[it’s (JSON)\\: yes]'", "'--kind[which]:value:(a b)'",
        "'--rate[how often]:value:'",
    ]  # fmt: skip
    assert f"        demo) _arguments {' '.join(options)} '*:value:_default';;" in lines
    assert "        key) _arguments  '*:value:_default';;" in lines


def test_fish() -> None:
    seen = "complete -c glue -n '__fish_seen_subcommand_from demo'"
    assert completion.script("fish") == "\n".join([
        "# fish completion for glue", "complete -c glue -f",
        "complete -c glue -n __fish_use_subcommand -a demo -d 'it’s shown'",
        "complete -c glue -n __fish_use_subcommand -a key -d 'make: a key'",
        f"{seen} -l file -r -F -d 'the file'",
        f"{seen} -l json -d 'it’s [JSON]: yes'",
        f"{seen} -l kind -x -a 'a b' -d 'which'",
        f"{seen} -l rate -r -d 'how often'",
        "",
    ])  # fmt: skip


def test_the_options_are_those_of_the_parser(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    parser = argparse.ArgumentParser("glue x", add_help=False)
    parser.add_argument("where")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to, in %(prog)s")
    parser.add_argument("--data-dir", default=3, metavar="X", help="not %(default)s")
    parser.add_argument("--level", type=int, choices=(1, 2))
    parser.add_argument("--json", action="store_true", help="objects")
    monkeypatch.setitem(sys.modules, "glue.cmd.x", SimpleNamespace(parser=lambda: parser))
    assert [*completion.options("x")] == [
        Option("--output", "where to, in glue x", (), True, True), Option("--data-dir", "not 3", (), True, True),
        Option("--level", "", ("1", "2"), True, False), Option("--json", "objects", (), False, False),
    ]  # fmt: skip
    monkeypatch.setattr(completion, "script", lambda shell: f"the script of {shell}\n")
    assert completion.main(["zsh"]) == 0
    assert capsys.readouterr().out == "the script of zsh\n"
