"""An endpoint for the doctor to find, with what may be wrong about it; it runs until its input ends.

    python -m benchmarks.doctor_endpoint '{"settings": {"name": "hall", "interface": "eth0"}, "clock": 3600}'

clock: seconds by which its wall clock is ahead. step: seconds by which the clock is set after the start. version: what
it says of its release. slow: a topic that it subscribes to with a handler that takes for ever. flood: a topic on which
it publishes 1 MB messages. publish: messages a second of 100 bytes. junk: datagrams to its group that are not glue's.
wire: datagrams to the group with this version of the wire format.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from typing import Any

import glue
from glue.network import parse_group


def lie(options: dict[str, Any]) -> None:
    """Set the clock or the version."""
    if ahead := options.get("clock"):
        truth = time.time
        time.time = lambda: truth() + ahead
    if version := options.get("version"):
        glue.__version__ = version


def work(endpoint: glue.Endpoint, options: dict[str, Any]) -> None:
    """Do what an option asks for, in a thread of its own."""
    group = parse_group(endpoint.settings.multicast_address)
    raw = socket.socket(group.family, socket.SOCK_DGRAM)
    raw.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(options.get("address", "0.0.0.0")))
    number = 0
    while True:
        number += 1
        if rate := options.get("publish"):
            endpoint.publish(f"{endpoint.name}/{number % 10}", b"x" * 100)
            time.sleep(1 / rate)
        elif topic := options.get("flood"):
            endpoint.publish(topic, b"x" * 1_000_000)
        elif options.get("junk"):
            raw.sendto(b"\x01\x02\x03 not glue", (group.host, group.port))
            time.sleep(0.1)
        elif version := options.get("wire"):
            header = {"glue": [version, 1, "00000000000000aa", 7, number]}
            raw.sendto(json.dumps(header).encode() + b"\n", (group.host, group.port))
            time.sleep(0.2)


def main() -> None:
    """Run the endpoint."""
    options = json.loads(sys.argv[1])
    lie(options)
    with glue.Endpoint(**options["settings"]) as endpoint:
        if topic := options.get("slow"):
            endpoint.subscribe(topic, lambda message: time.sleep(60))
        if {"publish", "flood", "junk", "wire"} & options.keys():
            threading.Thread(target=work, args=(endpoint, options), daemon=True).start()
        if step := options.get("step"):
            truth = time.time
            time.time = lambda: truth() + step
            endpoint._core.requests.unix_time = time.time
        if options.get("clock"):
            endpoint._core.requests.unix_time = time.time
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
