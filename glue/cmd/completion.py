"""`glue completion`: print what a shell needs to complete glue's commands and options.

glue completion bash > ~/.local/share/bash-completion/completions/glue
glue completion zsh > "${fpath[1]}/_glue"
glue completion fish > ~/.config/fish/completions/glue.fish
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import NamedTuple

from glue.cmd import common
from glue.cmd.main import COMMANDS

SHELLS = ("bash", "zsh", "fish")


class Option(NamedTuple):
    """An option of a command."""

    name: str
    help: str
    choices: tuple[str, ...]
    takes_value: bool
    is_file: bool


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.Parser(
        prog="glue completion",
        description="Print what a shell needs to complete glue's commands and options.",
        epilog=__doc__.split("\n", 2)[2],
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("shell", choices=SHELLS)
    return made


def options(command: str) -> Iterator[Option]:
    """The options of a command, from its own parser."""
    made: argparse.ArgumentParser = import_module(f"glue.cmd.{command}").parser()
    for action in made._actions:
        for name in action.option_strings:
            if name.startswith("--"):
                words = (action.help or "") % {**vars(action), "prog": made.prog}
                kinds = f"{action.metavar or ''} {action.dest}".lower()
                choices = tuple(map(str, action.choices or ()))
                yield Option(name, words, choices, action.nargs != 0, "file" in kinds or "dir" in kinds)


def script(shell: str) -> str:
    """The completion script of a shell."""
    found = {command: sorted(options(command)) for command in COMMANDS}
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](found)


def _bash(found: dict[str, list[Option]]) -> str:
    cases = []
    for command, listed in found.items():
        values = [
            f"            {command}:{one.name}) {_compgen('-W', ' '.join(one.choices))}; return;;"
            for one in listed
            if one.choices
        ]
        files = [f"{command}:{one.name}" for one in listed if one.is_file]
        if files:
            values.append(f'            {"|".join(files)}) COMPREPLY=($(compgen -f -- "$word")); return;;')
        cases += values
    names = "\n".join(
        f"        {command}) {_compgen('-W', ' '.join(one.name for one in listed))};;"
        for command, listed in found.items()
    )
    chosen = "\n".join(cases)
    return f"""# bash completion for glue
_glue() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}"
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W '{" ".join(found)} --help --version' -- "$word"))
        return
    fi
    case "$command:${{COMP_WORDS[COMP_CWORD - 1]}}" in
{chosen}
    esac
    case "$command" in
{names}
    esac
}}
complete -o default -F _glue glue
"""


def _compgen(kind: str, words: str = "") -> str:
    return f'COMPREPLY=($(compgen {kind} {repr(words) if words else ""} -- "$word"))'


def _zsh(found: dict[str, list[Option]]) -> str:
    commands = "\n".join(f"        '{name}:{_quoted(COMMANDS[name])}'" for name in found)
    cases = "\n".join(
        f"        {command}) _arguments {' '.join(_zsh_option(one) for one in listed)} '*:value:_default';;"
        for command, listed in found.items()
    )
    return f"""#compdef glue
_glue() {{
    local -a commands=(
{commands}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case "$command" in
{cases}
    esac
}}
if [[ $funcstack[1] == _glue ]]; then _glue "$@"; else compdef _glue glue; fi
"""


def _zsh_option(one: Option) -> str:
    value = ""
    if one.choices:
        value = f":value:({' '.join(one.choices)})"
    elif one.is_file:
        value = ":file:_files"
    elif one.takes_value:
        value = ":value:"
    words = _quoted(one.help).replace("[", "(").replace("]", ")").replace(":", "\\:")
    return f"'{one.name}[{words}]{value}'"


def _fish(found: dict[str, list[Option]]) -> str:
    lines = ["# fish completion for glue", "complete -c glue -f"]
    lines += [
        f"complete -c glue -n __fish_use_subcommand -a {command} -d '{_quoted(COMMANDS[command])}'" for command in found
    ]
    for command, listed in found.items():
        for one in listed:
            line = f"complete -c glue -n '__fish_seen_subcommand_from {command}' -l {one.name[2:]}"
            if one.choices:
                line += f" -x -a '{' '.join(one.choices)}'"
            elif one.takes_value:
                line += " -r -F" if one.is_file else " -r"
            lines.append(f"{line} -d '{_quoted(one.help)}'")
    return "\n".join(lines) + "\n"


def _quoted(words: str) -> str:
    """Words for a string in single quotes."""
    return " ".join(words.replace("'", "’").split())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    common.prepare_streams()
    arguments = parser().parse_args(argv)
    print(script(arguments.shell), end="")
    return common.SUCCESS


if __name__ == "__main__":
    sys.exit(main())
