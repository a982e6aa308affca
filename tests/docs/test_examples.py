"""The programs in `examples/` run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.loopback import loopback_environment

ROOT = Path(__file__).parents[2]


def printed(program: str, *arguments: str) -> list[str]:
    """The lines that an example prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / program), *arguments],
        env={**loopback_environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    return done.stdout.splitlines()


def test_two_networks() -> None:
    numbers, peer = printed("two_networks.py", "lo", "missing0")  # an interface that is missing is waited for
    assert numbers == "[0, 1, 2, 3, 4]"
    assert peer.split() == ["peer", "dial", "by", "lo", "to", "127.0.0.1"]


def test_a_late_joiner() -> None:
    assert printed("late_joiner.py") == [
        "everything: [60, 61, 62, 63, 64]",
        "the last two: [63, 64]",
        "the last ten minutes: [60, 61, 62, 63, 64]",
        "live: 65 65 65",
    ]


def test_a_battery_node() -> None:
    lines = printed("battery_node.py")
    assert lines == [
        line for volts in (3.7, 3.6, 3.5) for line in ("waited: 2 setpoints: [20, 21]", f"battery: {volts}")
    ]


def test_history_of_a_keeper() -> None:
    assert printed("kept_history.py") == [
        "on disk: True",
        *(f"boiler boiler/1/temperature {celsius}" for celsius in range(60, 65)),
    ]


def test_request_and_reply() -> None:
    assert printed("request_reply.py") == [
        "{'on': True}",
        "lamp {'on': False}",
        "lamp: ValueError: expected {'on': true} or {'on': false}",
        "no responder of 'light/cellar/get' is known; see wait_for_responders",
    ]


def test_arrays_properties_and_a_subscription_that_asks_for_less() -> None:
    assert printed("camera_frames.py") == [
        "archived: 40 (48, 64) uint8 numpy",
        "exposure of the last frame: 9",
        "report: {'frames': 40} msgpack",
        "few frames displayed: True with the latest at the end",
        "nothing of its own at the camera",
    ]


def test_durable_orders() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "durable_orders.py")],
        env={**loopback_environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "True ['keeper']",
        "2 more orders are on disk",
        'orders/books {"title":"Emma"}',
        'orders/books {"title":"Persuasion"}',
        'orders/books {"title":"Sanditon"}',
    ]


def test_billing() -> None:
    assert printed("billing.py") == [
        "billing-1: Emma",
        "billing-1: Persuasion",
        "billing-2: the bank does not answer",
        "billing-2: Sanditon again",
        "billing is 0 behind",
    ]


def test_retry_until_success() -> None:
    assert printed("retry_until_success.py") == [
        "billed: Emma",
        "alert: stuck billing",
        "billed: Persuasion",
        "billed: Sanditon",
    ]


def test_shared_work() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "shared_work.py")],
        env={**loopback_environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["cancelled: True", "all handled: True", "jobs done: 41"]
    assert done.returncode == 0


def test_presence() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "presence.py")],
        env={**loopback_environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "+ endpoint boiler  ",
        "+ publisher boiler home/boiler ",
        "boiler is silent on home/boiler",
        "- publisher boiler home/boiler goodbye",
        "- endpoint boiler  goodbye",
    ]
    assert done.returncode == 0


def test_quality_of_service() -> None:
    differing = "reliability best-effort is offered, reliable requested; durability volatile is offered"
    assert printed("quality_of_service.py") == [
        "door/front/event opened",
        "door/front/event closed",
        f"door/front/battery: subscriber here and door there: {differing}, transient_local requested; "
        "the weaker one holds",
        "battery 0.9",
        "setpoint 60 from main",
        "setpoint 56 from spare",
    ]


def test_healing() -> None:
    assert printed("healing.py") == [
        "plant/mode night day",
        "left fetched 100 messages",
        "right fetched 101 messages",
        "left has plant/boiler, plant/mode, plant/tank",
        "right has plant/boiler, plant/mode, plant/tank",
    ]


def test_private_group() -> None:
    assert printed("private_group.py") == [
        "on",
        "guest may not publish 'home/lamp': guest may not publish #",
    ]


def test_last_will() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "last_will.py")],
        env={**loopback_environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["boiler online", "boiler offline"], done.stderr
    assert done.returncode == 0


def test_thermostats() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "thermostats.py"), "60"],
        env={**loopback_environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "60 thermostats are set",
        "60 thermostats know their targets, though one of three hosts was killed",
    ]
    assert done.returncode == 0


def test_a_webhook() -> None:
    assert printed("webhook.py") == [
        *["on disk at door"] * 3,
        "1 orders/books Emma",
        "2 orders/books Persuasion",
        "3 orders/books Sanditon",
    ]
