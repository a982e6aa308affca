"""A thousand thermostats on three hosts, of which one is killed: the others go on with what they know.

python examples/thermostats.py [COUNT]    # the hosts are processes of this machine
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import glue

HOSTS = ["cellar", "hall", "attic"]


@dataclass
class Set:
    """Set the target."""

    celsius: float


@dataclass
class Boost:
    """Heat more for a while."""

    seconds: float


class Thermostat(glue.Receiver):
    """Keeps a target temperature."""

    messages = (Set, Boost)

    def receive(self, context: glue.Context, message: Any) -> Any:
        """Set the target, or tell it."""
        match message:
            case Set(celsius):
                context.state["target"] = celsius
            case Boost(seconds):
                context.become(self.boosted)
                context.after(seconds, "boosted enough")
            case "target":
                return context.state.get("target", 20.0)
            case _:
                raise ValueError("expected Set, Boost or 'target'")
        return None

    def boosted(self, context: glue.Context, message: Any) -> Any:
        """Tell a higher target, until the time is over."""
        if message == "boosted enough":
            context.become(self.receive)
        elif message == "target":
            return context.state.get("target", 20.0) + 5
        return None


def host(name: str) -> None:
    """Host thermostats until standard input ends."""
    with glue.Endpoint(name) as endpoint:
        plant = endpoint.model("plant", voters=len(HOSTS))
        endpoint.receivers("thermostat", Thermostat, model=plant)
        print("ready", flush=True)
        sys.stdin.read()


def check(caller: glue.Endpoint, count: int) -> None:
    """Ask all thermostats."""
    for number in range(count):
        assert caller.ask(f"thermostat/{number}", "target", timeout=20) == 15 + number % 10


def main(count: int) -> None:
    """Set all thermostats, kill a host, and ask them all."""
    words = [sys.executable, __file__, "--host"]
    hosts = [subprocess.Popen([*words, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for name in HOSTS]
    try:
        for process in hosts:
            assert process.stdout is not None
            process.stdout.readline()
        with glue.Endpoint("caller") as caller:
            for number in range(count):
                caller.send(f"thermostat/{number}", Set(15 + number % 10))
            check(caller, count)
            print(f"{count} thermostats are set")
            hosts[0].kill()
            began = time.monotonic()
            check(caller, count)
            print(f"{count} thermostats know their targets, though one of three hosts was killed")
            print(f"after {time.monotonic() - began:.1f} s", file=sys.stderr)
            caller.send("thermostat/1", Boost(0.5))
            assert caller.ask("thermostat/1", "target", timeout=20) == 21
    finally:
        for process in hosts:
            process.communicate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--host"]:
        host(sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
