"""`glue keep`, with a publisher on the same network."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from glue.cmd import keep
from tests.support.lan import PATIENCE, Lan


def network(lan: Lan) -> list[str]:
    """The options of a command on this network."""
    return [
        "--interface", str(lan.settings["interface"]), "--network-id", str(lan.settings["network_id"]),
        "--multicast-address", str(lan.settings["multicast_address"]),
    ]  # fmt: skip


def test_it_keeps_what_is_published_and_finds_it_again(
    lan: Lan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # a line shows no more than a part of a long path
    publisher = lan.start("publisher")
    found: list[bool] = []

    def publish() -> None:
        if publisher.wait_for_keepers("a/b", 1, PATIENCE):
            found.append(publisher.publish("a/b", 1, receipt=True, acks="disk").wait(PATIENCE))

    thread = threading.Thread(target=publish)
    thread.start()
    where = ["--data-dir", "log"]
    assert keep.main(["a/#", "c", *where, "--duration", "1.5", *network(lan)]) == 0
    thread.join(PATIENCE)
    assert found == [True]
    lines = capsys.readouterr().out.splitlines()
    told = "keeping a/#, c in log; "  # the message may come before the line
    assert {told + "0 messages so far", told + "1 messages so far"} & {*lines}
    assert "messages on disk: 1" in lines
    assert keep.main(["a/#", *where, "--duration", "0.1", *network(lan)]) == 0
    assert "keeping a/# in log; 1 messages so far" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("words", "code", "error"), [
    (["--age", "soon"], 2, "age='soon': expected a positive number, or a text such as"),
    (["--replicas", "0"], 2, "replicas=0"),
    (["--data-dir", "/dev/null/log"], 1, "give a directory that can be written"),
])  # fmt: skip
def test_a_mistake_is_told(
    lan: Lan, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, error: str
) -> None:
    assert keep.main(["a", "--data-dir", str(tmp_path), *words, *network(lan)]) == code
    assert error in capsys.readouterr().err
