"""Peers found over DNS-SD instead of multicast announcements, by one setting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import glue
import glue.aio
from tests.support.calls import do
from tests.support.lan import PATIENCE, Lan, listen

ROOT = Path(__file__).parents[2]
WITHOUT_ZEROCONF = """
import sys
sys.modules["zeroconf"] = None
import glue
endpoint = glue.Endpoint("a", interface=sys.argv[1], discovery="dns-sd")
try:
    endpoint.start()
except glue.MissingExtraError as error:
    print(error)
"""


def test_endpoints_find_each_other_and_talk(lan: Lan) -> None:
    a, b = lan.pair(discovery="dns-sd")
    ear = listen(b, "t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    a.publish("t", "found")
    assert [message.payload for message in ear.wait(1)] == ["found"]
    assert [peer.name for peer in b.peers] == ["a"]


def test_a_missing_extra_is_named_with_its_cure(lan: Lan) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ZEROCONF, str(lan.settings["interface"])],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert "pip install" in done.stdout
    assert "zeroconf" in done.stdout


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
def test_a_start_that_cannot_register_leaves_no_network_open(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[Any] = []
    network = SimpleNamespace(unicast_address=("127.0.0.1", 5), maintain=print, close=lambda: did.append("closed"))

    def fail(**facts: Any) -> None:
        did.append(facts["address"])
        raise OSError("no registry")

    monkeypatch.setattr("glue.discovery.zeroconf_registry.ZeroconfRegistry", fail)
    endpoint = kind("a", discovery="dns-sd", network=lambda settings: network)
    with pytest.raises(OSError, match="no registry"):
        do(endpoint.start)
    assert did == [("127.0.0.1", 5), "closed"]
