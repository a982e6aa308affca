"""What holds of many commands: whom they tell of peers, and that they end when they are to."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from typing import Any

import pytest

from glue.cmd import main, session
from glue.cmd.output import CommandOutput
from glue.errors import GlueError


@pytest.mark.parametrize(("words", "quiet"), [
    ("discovery", False), ("keep a --data-dir x", False), ("model", False), ("mqtt --witness --shared x", False),
    ("topics", False), ("transport", False), ("fragmentation", False),
    ("consumers", True), ("endpoint --subscribe #", True), ("history a", True),
    ("model get a", True), ("mqtt clients", True), ("peers", True), ("receivers", True), ("request a b", True),
    ("record --output x.mcap", True), ("spy", True), ("top", True), ("topics --list", True),
    ("play x.pcap", True),
])  # fmt: skip
def test_a_command_tells_people_of_peers_where_they_are_what_it_shows(
    words: str, quiet: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    asked: list[bool] = []

    def refuse(arguments: Any, output: Any, quiet: bool = False) -> Any:
        assert isinstance(arguments, Namespace)
        assert isinstance(output, CommandOutput)
        asked.append(quiet)
        raise GlueError("no network today")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("glue.cmd.play.open_source", lambda *_: None)
    name, *rest = words.split()
    for module in (session, import_module(f"glue.cmd.{name}"), *map(import_module, OTHERS)):
        if hasattr(module, "open_endpoint"):
            monkeypatch.setattr(module, "open_endpoint", refuse)
    assert main.main([name, *rest]) == 1
    assert asked == [quiet]


OTHERS = ("glue.cmd.traffic", "glue.cmd.topic_list")
