"""`glue fragmentation` fails if a message was damaged, and only then."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from glue.cmd import fragmentation, traffic
from glue.cmd.output import CommandOutput


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_the_exit_code_says_whether_all_messages_were_whole(
    damaged: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = traffic.numbered("me", 1, 50)
    payloads = [whole, *[b"?" + bytes(whole)[1:]] * damaged, whole]  # type: ignore[arg-type]

    def exchange(arguments: Namespace, output: CommandOutput, show: Any) -> Mapping[str, Any]:
        for number, payload in enumerate(payloads):
            facts = {"publisher": "me", "publisher_id": "aa", "incarnation": 1, "topic": "t", "sequence": number}
            show(SimpleNamespace(payload=payload, type=None, published_at=0.0, retained=False, **facts))
        return {"fragmentation": {}}

    monkeypatch.setattr(traffic, "exchange", exchange)
    assert fragmentation.main([]) == (1 if damaged else 0)
    told = capsys.readouterr().out
    assert told.count("DAMAGED") == damaged
    assert told.count("50 bytes  whole") == 2
