"""`glue request`, against responders on the same network."""

from __future__ import annotations

from typing import Any

import pytest

import glue
from glue.cmd import request
from tests.support.lan import Lan


def asked(lan: Lan, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    """The exit code, the lines and the errors of a command."""
    network = ["--interface", str(lan.settings["interface"]), "--network-id", str(lan.settings["network_id"])]
    code = request.main([*words, *network, "--multicast-address", str(lan.settings["multicast_address"])])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def double(asking: glue.Request) -> Any:
    return asking.payload * 2


def test_it_shows_the_answer_of_one_and_of_all(lan: Lan, capsys: pytest.CaptureFixture[str]) -> None:
    lan.start("b").respond("twice", double)
    lan.start("c").respond("twice", double)
    assert asked(lan, capsys, "twice", "21")[:2] == (0, ["42"])
    assert asked(lan, capsys, "twice", "ab", "--bytes")[1] == ["abab"]
    code, lines, _ = asked(lan, capsys, "twice", "[1]", "--all")
    assert (code, sorted(lines)) == (0, ["b [1, 1]", "c [1, 1]"])


def test_an_error_is_told(lan: Lan, capsys: pytest.CaptureFixture[str]) -> None:
    lan.start("b").respond("twice", double)
    code, lines, error = asked(lan, capsys, "twice", "null")
    assert (code, lines) == (1, [])
    assert "glue request: b: TypeError" in error
    for words in ((), ("--all",)):
        code, lines, error = asked(lan, capsys, "nobody", "1", "--wait", "0", *words)
        assert (code, lines) == (1, [])
        assert "no responder" in error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (glue.NoResponderError("no responder; see wait_for_responders"), "no responder; give it more time with --wait"),
        (
            glue.NoResponderError("no responder of 'see wait_for_responders'; see wait_for_responders"),
            "no responder of 'see wait_for_responders'; give it more time with --wait",
        ),
        (glue.NoResponderError("b answers no more"), "b answers no more"),
        (glue.RemoteError("b", "E", "see wait_for_responders"), "b: E: see wait_for_responders"),
    ],
)
def test_only_the_hint_for_programs_is_replaced(error: Exception, told: str) -> None:
    assert request.told(error) == told
