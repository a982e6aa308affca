"""`glue model` as processes: three terminals share state, one is killed, the others go on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cmd.conftest import Command, Start

FAST = ("--election-timeout", "0.4")


def wait_for_leader(terminal: Command, besides: str | None = None) -> str:
    """Wait until the terminal tells of a leader, another one than `besides`."""
    while True:
        leader: str | None = terminal.expect("status")["leader"]
        if leader not in (None, besides):
            assert leader is not None
            return leader


def test_three_terminals_share_state_and_survive_the_death_of_their_leader(start: Start) -> None:
    terminals = {name: start("model", "--endpoint-name", name, *FAST) for name in "ABC"}
    leader = wait_for_leader(terminals["A"])
    setting = start("model", "set", "valve/1", '{"open": true}', *FAST)
    assert setting.finish() == 0
    assert setting.events[-1]["event"] in ("committed", "peer_removed")
    for terminal in terminals.values():
        change = terminal.expect("change")
        assert (change["key"], change["value"]) == ("valve/1", {"open": True})
    terminals[leader].process.kill()
    survivor = next(terminal for name, terminal in terminals.items() if name != leader)
    wait_for_leader(survivor, besides=leader)
    getting = start("model", "get", "valve/1", *FAST)
    assert getting.expect("value")["value"] == {"open": True}
    assert getting.finish() == 0


def test_one_shots_tell_what_came_of_them(start: Start) -> None:
    keeper = start("model", "--voters", "1", *FAST)
    wait_for_leader(keeper)
    assert start("model", "compare", "n", "1", "2", *FAST).finish() == 1
    refused = start("model", "compare", "n", "1", "2", *FAST)
    assert "no value" in refused.expect("refused")["reason"]
    locked = start("model", "lock", "door", "30", *FAST)
    assert locked.expect("locked")["remaining"] > 0
    locked.process.send_signal(signal.SIGINT)
    assert locked.finish() == 0
    assert start("model", "lock", "door", *FAST).expect("locked")["name"] == "door"
    assert start("model", "get", "n", "--timeout", "0.5", "--model", "other").finish() == 1
    broken = start("model", "update", "n", '{"open": true', *FAST)  # not to become the whole value, as a string
    assert broken.finish() == 2
    assert "begins like JSON" in broken.errors()
    wrong = start("model", "paint", "n")
    assert wrong.finish() == 2
    assert "no command 'paint'" in wrong.errors()


@pytest.mark.parametrize("words", [("get", "n"), ("set", "n", "1"), ("lock", "door"), ("watch", "#")])
def test_a_signal_ends_a_one_shot_that_waits_for_a_majority(start: Start, words: tuple[str, ...]) -> None:
    command = start("model", *words, "--timeout", "600")
    command.expect("started")
    command.process.send_signal(signal.SIGINT)
    assert command.finish() == (0 if words[0] == "watch" else 1)
    assert ("ended before there was an answer" in command.errors()) == (words[0] != "watch")


def test_mergeable_keys_from_the_command_line_need_no_majority(start: Start) -> None:
    mergeable = ("--mergeable", "stats/=counter,tags/=set,notes/=multi", *FAST)
    keeper = start("model", "--voters", "3", *mergeable)  # alone, so never a majority
    for words in (("add", "stats/parts", "5"), ("update", "stats/parts", "2"), ("add", "tags/t", "red")):
        writing = start("model", *words, *mergeable)
        assert writing.finish() == 0
        assert writing.events[-1]["event"] in ("committed", "peer_removed")
    seen: dict[str, object] = {}
    while seen != {"stats/parts": 7, "tags/t": ["red"]}:
        change = keeper.expect("change")
        seen[change["key"]] = change["value"]
    getting = start("model", "items", "stats/#", *mergeable)
    assert getting.expect("value")["value"] == 7
    refused = start("model", "set", "stats/parts", "5", *mergeable)
    assert "added to" in refused.expect("refused")["reason"]
    assert refused.finish() == 1
    lonely = start("model", "get", "stats/parts", "--model", "other", "--timeout", "0.5", *mergeable)
    assert "no other endpoint" in lonely.expect("refused")["reason"]


def test_a_data_dir_that_cannot_be_used_is_told_in_a_line(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    command = start("model", "--voters", "1", "--data-dir", str(tmp_path / "file"), *FAST)
    assert command.finish() == 1
    (line,) = command.errors().splitlines()
    assert "data_dir=" in line
    assert "give a directory that can be written" in line


def test_terminals_that_were_given_other_voters_say_so_and_commit_nothing(start: Start) -> None:
    keeper = start("model", "--endpoint-name", "A", "--voters", "1", *FAST)
    wait_for_leader(keeper)
    other = start("model", "--endpoint-name", "B", "--voters", "3", *FAST)
    while not (failure := other.expect("status")["failure"]):
        pass
    assert "here: voters=3; at A: a group founded with 1 voter" in failure
    while not (failure := keeper.expect("status")["failure"]):
        pass
    assert "here: voters=1; at B: 3 voters" in failure
    setting = start("model", "set", "k", "1", "--voters", "3", "--timeout", "2", *FAST)
    assert "a group founded with 1 voter" in setting.expect("refused")["reason"]
    assert setting.finish() == 1
    assert start("model", "set", "k", "1", *FAST).finish() == 0, "one that asks for no number takes what there is"


def test_a_voter_that_has_gone_is_shown_by_its_name(start: Start) -> None:
    terminals = [start("model", "--endpoint-name", name, *FAST) for name in "ABC"]
    for terminal in terminals:
        wait_for_leader(terminal)
    terminals[2].process.kill()
    terminals[2].process.wait()
    status = start("model", "status", *FAST).expect("status")
    assert status["voters"] == ["A", "B", "C"]
