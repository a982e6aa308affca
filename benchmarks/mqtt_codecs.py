"""Compares the codec of the MQTT door with `mqtt5` (PyPI) and `mqtt-packet` (npm), on valid and damaged packets.

    python -m benchmarks.mqtt_codecs --packets 1000000 --seed 1

Every other packet is damaged. Each codec takes a packet, refuses it, or waits for bytes that are missing. Where both
take a packet, all fields are compared. Every tenth time something that the door writes is read by the other codecs. A
difference has to have a reason in `mqtt_codec_reasons.py`; one without a reason is printed, and the run fails.

`mqtt5` knows only MQTT 5. `mqtt-packet` is what `tests/install-node-packages` installs with MQTT.js.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import mqtt5
import orjson

from benchmarks.mqtt_codec_fields import Fields, by_name, of_glue, of_mqtt5, of_mqtt_packet, plain
from benchmarks.mqtt_codec_packets import Maker
from benchmarks.mqtt_codec_reasons import reason_of
from benchmarks.results import markdown
from glue.gateway.mqtt import codes, encoder
from glue.gateway.mqtt.codes import ProtocolError
from glue.gateway.mqtt.decoder import Decoder
from glue.gateway.mqtt.packets import Publish

PACKAGES = Path(__file__).parents[1] / ".venv/node/node_modules"
BATCH = 1_000
OUTCOMES = ("same", "both refuse", "both wait", "different")

Verdict = Fields | str | None
"""The fields of a packet, the text of a refusal, or None where bytes are missing."""


class Case(NamedTuple):
    """A packet, what glue says about it or meant by it, and whether glue wrote it."""

    version: int
    data: bytes
    glue: Verdict
    is_written: bool


def read_glue(version: int, data: bytes) -> Verdict:
    """Read one packet of a client with the door's decoder. A CONNECT is the first packet, any other follows one."""
    decoder = Decoder()
    if data[0] >> 4 != codes.CONNECT:
        decoder.version = version
    try:
        packet = next(decoder.feed(data), None)
    except ProtocolError as error:
        return str(error)
    return None if packet is None else of_glue(packet)


def read_mqtt5(data: bytes) -> Verdict:
    """Read one packet with `mqtt5`."""
    try:
        return of_mqtt5(mqtt5.read(memoryview(data))[0])
    except IndexError:
        return None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a string that is not UTF-8 is a PanicException
        return str(error)


def cases(random: Random) -> Iterator[Case]:
    """Packets without end."""
    maker = Maker(random)
    while True:
        version = random.choice((codes.V311, codes.V5))
        data = maker.packet(version)
        if random.random() < 0.5:
            data = maker.damage(data)
        yield Case(version, data, read_glue(version, data), False)
        if random.random() < 0.1:
            yield written(maker, version)


def written(maker: Maker, version: int) -> Case:
    """A packet of the door's encoder, and what it should be read as."""
    random = maker.random
    kind = random.choice((2, 3, 4, 5, 6, 7, 9, 11, 13, 14 if version == codes.V5 else 13))
    given = maker.chosen(kind) if version == codes.V5 else {}
    fields: Fields = {"kind": kind, "properties": plain(given)}
    number = int.from_bytes(maker.id(), "big")
    if kind == codes.CONNACK:
        code = random.choice(sorted(codes.LISTED[kind] if version == codes.V5 else codes.OLD_CONNACK))
        fields |= {"code": code if version == codes.V5 else codes.OLD_CONNACK[code], "session_present": not code}
        data = encoder.connack(version, code, not code, given)
    elif kind == codes.PUBLISH:
        topic, payload, qos = maker.text(1), maker.raw(), random.randrange(3)
        fields |= {"topic": topic, "payload": str(payload, "latin1"), "qos": qos, "dup": qos > 0, "retain": qos == 1}
        fields |= {"id": number} if qos else {}
        data = encoder.publish(version, Publish(topic, [payload]), qos, qos == 1, [number], qos > 0, given)
    elif kind in (codes.SUBACK, codes.UNSUBACK):
        listed = sorted(codes.LISTED[kind]) if version == codes.V5 else [0, 1, 2, 0x80]
        answers = random.choices(listed, k=random.randint(1, 3))
        fields |= {"id": number, "codes": answers}
        if kind == codes.SUBACK:
            data = encoder.suback(version, number, answers, given)
        else:
            data, fields["properties"] = encoder.unsuback(version, number, answers), {}
            if version != codes.V5:
                del fields["codes"]
    elif kind == codes.PINGRESP:
        data = encoder.PINGRESP
        fields["properties"] = {}
    else:
        code = random.choice(sorted(codes.LISTED[kind])) if version == codes.V5 else 0
        fields |= {"code": code}
        if kind == codes.DISCONNECT:
            data = encoder.disconnect(code, given)
        else:
            data = encoder.acknowledgement(version, kind, number, code, given)
            fields["id"] = number
    return Case(version, data, fields, True)


@contextmanager
def silence() -> Iterator[None]:
    """Nothing is written to the standard error stream: `mqtt5` tells each of its panics there."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


class Node:
    """The process that reads with `mqtt-packet`."""

    def __init__(self) -> None:
        command = ["node", str(Path(__file__).with_suffix(".mjs")), str(PACKAGES)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, batch: list[Case]) -> None:
        """Send packets; `receive` has to come before the next ones."""
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps([[one.version, b64encode(one.data).decode()] for one in batch]) + b"\n")
        self._process.stdin.flush()

    def receive(self) -> list[Verdict]:
        """Return the verdicts on the oldest batch that was sent."""
        assert self._process.stdout is not None
        found: list[Any] = orjson.loads(self._process.stdout.readline())
        return [of_mqtt_packet(one) if isinstance(one, dict) else one for one in found]

    def close(self) -> None:
        """End it."""
        self._process.communicate()


class Table:
    """Counts what one of the other codecs says beside glue."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.outcomes: Counter[tuple[bool, str]] = Counter()
        self.reasons: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    def add(self, case: Case, theirs: Verdict) -> None:
        """Count what both say about a packet."""
        mine = case.glue
        if mine == theirs:
            outcome = "same" if mine is not None else "both wait"
        elif isinstance(mine, str) and isinstance(theirs, str):
            outcome = "both refuse"
        else:
            outcome = "different"
            self._explain(case, mine, theirs)
        self.outcomes[case.is_written, outcome] += 1

    def _explain(self, case: Case, mine: Verdict, theirs: Verdict) -> None:
        reason = reason_of(self.peer, case.data, mine, theirs)
        if reason is not None:
            self.reasons[reason] += 1
            return
        words = [
            re.sub(r"\d+|'.*'", "…", str(one))[:60] if not isinstance(one, dict) else "taken" for one in (mine, theirs)
        ]
        if isinstance(mine, dict) and isinstance(theirs, dict):
            words = [f"{name}" for name in sorted(mine.keys() | theirs.keys()) if mine.get(name) != theirs.get(name)]
        name = f"{self.peer} {codes.NAMES[case.data[0] >> 4]}: {' / '.join(words)}"
        self.unknown[name] += 1
        self.examples.setdefault(name, f"{case.version} {case.data.hex()}\n      {mine}\n      {theirs}")


def compare(packets: int, seed: int) -> list[Table]:
    """Compare that many packets, and some that glue wrote; returns a table for each of the other codecs."""
    found, node = [Table("mqtt5"), Table("mqtt-packet")], Node()
    source = cases(Random(seed))
    made = 0
    try:
        while made < packets:
            batch = list(islice(source, min(BATCH, packets)))
            made += sum(not case.is_written for case in batch)
            node.send(batch)
            new = [case for case in batch if case.version == codes.V5]
            with silence():
                theirs = [read_mqtt5(case.data) for case in new]
            for case, their in zip(new, theirs, strict=True):
                found[0].add(case, their)
            for case, their in zip(batch, node.receive(), strict=True):
                mine = by_name(case.glue) if isinstance(case.glue, dict) else case.glue
                found[1].add(case._replace(glue=mine), their)
    finally:
        node.close()
    return found


def main() -> int:
    """Run and report; returns 1 if a difference has no reason."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mqtt_codecs", description="Compare MQTT codecs.")
    parser.add_argument("--packets", type=int, default=100_000, help="how many (default 100,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the packets (default 1)")
    options = parser.parse_args()
    started = time.perf_counter()
    tables = compare(options.packets, options.seed)
    rows = []
    for table in tables:
        for is_written in (False, True):
            counts = [table.outcomes[is_written, outcome] for outcome in OUTCOMES]
            what = "what glue writes" if is_written else "packets of clients"
            rows.append([table.peer, what, *(f"{count:,}" for count in (sum(counts), *counts))])
    print(markdown(("codec", "what", "packets", *OUTCOMES), rows))
    rows = [[table.peer, reason, f"{count:,}"] for table in tables for reason, count in table.reasons.most_common()]
    print("\n" + markdown(("codec", "reason of a difference", "packets"), rows))
    for table in tables:
        for name, count in table.unknown.most_common():
            print(f"NO REASON {count} {name}: {table.examples[name]}", file=sys.stderr)
    print(f"\n{time.perf_counter() - started:.0f} s")
    return int(any(table.unknown for table in tables))


if __name__ == "__main__":
    sys.exit(main())
