"""`glue model` as processes: three terminals share state, one is killed, the others go on."""

from __future__ import annotations

import signal

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
    assert command.finish() == 0
    assert command.errors() == ""


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
