"""Processes that start, publish at once and end: who subscribes on another host gets each message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.namespaces import needs_namespaces, segment

pytestmark = [pytest.mark.namespaces, needs_namespaces]

ROOT = Path(__file__).parents[2]
RUNS = 5

SUBSCRIBER = """
import glue
with glue.Endpoint("subscriber", interface="eth0") as endpoint:
    messages = endpoint.subscribe("t")
    print("ready", flush=True)
    for message in messages:
        print(message.payload, flush=True)
"""

PUBLISHER = """
import sys, glue
with glue.Endpoint(interface="eth0") as endpoint:
    receipt = endpoint.publish("t", int(sys.argv[1]), receipt=True)
    print(receipt.wait(10), receipt.delivered, endpoint.flush(10))
"""


def test_a_program_that_publishes_at_once_and_ends_is_heard_each_time() -> None:
    with segment(2) as (there, here):
        subscriber = there.popen(
            [sys.executable, "-c", SUBSCRIBER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert subscriber.stdout is not None
        assert subscriber.stdout.readline() == "ready\n"
        told = [here.run([sys.executable, "-c", PUBLISHER, str(number)], cwd=ROOT).stdout for number in range(RUNS)]
        # A subscriber that is too busy to answer within 0.04 s is missed, and then that is told.
        assert {*told} <= {"True ['subscriber'] True\n", "False [] False\n"}
        delivered = [number for number in range(RUNS) if told[number].startswith("True")]
        assert delivered
        assert [int(subscriber.stdout.readline()) for _ in delivered] == delivered
