"""What the documentation shows, works: programs run, commands and their options exist, links lead somewhere.

A fenced block marked `python` is run as a program, on loopback and on a network of its own; one marked `python endless`
until it has printed something. In blocks marked `console`
or `sh` every `glue …`, `python -m glue.cmd.…` and `python -m spark.…` is given to that command's own parser.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest

from glue.cmd.main import COMMANDS
from glue.settings import SETTINGS, variable
from tests.support.loopback import loopback_environment

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
SPARK = {
    "spark.analyze": "spark.analyze.__main__",
    "spark.live": "spark.live.__main__",
    "spark.replay": "spark.replay.__main__",
    "spark.convert": "spark.convert",
}
"""Where the commands beside glue's own have their parsers."""

TIMEOUT = 30.0
"""Seconds that a program of the documentation may take."""

FENCED = re.compile(r"^```(?P<marks>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page."""

    place: str
    marks: str
    text: str


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text()
        for found in FENCED.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Block(f"{page.relative_to(ROOT)}:{line}", found["marks"].strip(), found["text"])


def marked(*marks: str) -> list[Block]:
    return [block for block in blocks() if block.marks in marks]


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings have on GitHub and GitLab: lower case, hyphens for spaces, no punctuation."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def place(block: Block) -> str:
    return block.place


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """The names and arguments of the glue commands in a block."""
    for line in block.text.splitlines():
        if block.marks == "console" and not line.startswith("$ "):
            continue
        words = shlex.split(line.removeprefix("$ "), comments=True)
        for between, group in groupby(words, key=("|", "&", "&&", ";").__contains__):
            match list(group):
                case ["glue", name, *arguments] if not between and not name.startswith("-"):
                    yield name, arguments
                case ["python" | "python3", "-m", module, *arguments] if module.startswith("glue.cmd."):
                    yield module.removeprefix("glue.cmd."), arguments
                case ["python" | "python3", "-m", module, *arguments] if module in SPARK:
                    yield module, arguments


@pytest.mark.parametrize("block", marked("python"), ids=place)
def test_a_program_runs(block: Block, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(block.text)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        env={**loopback_environment(), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("block", marked("python endless"), ids=place)
def test_a_program_without_an_end_runs_until_ctrl_c(block: Block) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-W", "error", "-c", block.text],
        env={**loopback_environment(), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        assert program.stdout is not None
        first = program.stdout.readline()
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=TIMEOUT)
    assert "home/kitchen/temperature {'celsius': 21.5}" in first
    assert errors.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("block", marked("console", "sh"), ids=place)
def test_commands_and_their_options_exist(block: Block) -> None:
    for name, arguments in commands(block):
        assert name in COMMANDS or name in SPARK
        if "--help" not in arguments:
            import_module(SPARK.get(name, f"glue.cmd.{name}")).parser().parse_args(arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for found in LINK.finditer(FENCED.sub("", page.read_text())):
        target = page.parent / found["path"] if found["path"] else page
        assert target.exists(), f"{page.name} links to {found['path']}"
        if found["anchor"]:
            assert found["anchor"] in anchors(target), f"{page.name} links to {found['path']}#{found['anchor']}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_each_of_its_options_is_documented(command: str) -> None:
    sections = dict(SECTION.findall((ROOT / "docs" / "commands.md").read_text()))
    documented = sections[command] + sections["Options of all commands"]
    options = re.findall(r"--[a-z-]+", import_module(f"glue.cmd.{command}").parser().format_help())
    assert {option for option in options if option not in documented} == set()


def test_every_setting_is_documented_with_its_default() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    for name, declared in SETTINGS.items():
        default = "" if declared.default is None else f"`{declared.default}`"
        assert f"| `{name}` | `{variable(name)}` | {default} | {declared.help} |" in page


def test_the_tests_that_prove_a_promise_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "reliability.md").read_text()))
    written = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert named - written == set()
    assert len(named) > 20
