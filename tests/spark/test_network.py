"""Real endpoints on two hosts behind a lossy cable, whose counts are the truth; and the report in a browser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

import glue
from spark.analyze.__main__ import parser, run, summary
from spark.analyze.result import Result
from spark.report import page
from tests.spark import browser
from tests.support.cable import Cable
from tests.support.lan import listen
from tests.support.namespaces import Host, needs_namespaces, segment

PATIENCE = 30.0
needs_tshark = pytest.mark.skipif(
    not (shutil.which("tshark") and shutil.which("tcpdump")) and os.environ.get("CI") != "true",
    reason="needs `tshark` and `tcpdump`",
)
pytestmark = [pytest.mark.namespaces, needs_namespaces, needs_tshark]


class Measured(NamedTuple):
    """What the cable counted, where captures and report are, and what the analysis found."""

    counts: dict[str, dict[str, int]]
    directory: Path
    result: Result


@contextmanager
def captured(host: Host, path: Path) -> Iterator[None]:
    """Everything that leaves or reaches the host's end of the cable goes to a pcap file, at once.

    The buffer has a place of 64 KiB for each frame: room for more frames than there are, however busy the machine is.
    """
    command = ["tcpdump", "-n", "--immediate-mode", "-U", "-s", "65535", "-B", "98304", "-i", "cable0", "-w", str(path)]
    process = host.popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = ""
    while "listening on" not in said:
        line = process.stderr.readline()
        assert line, f"tcpdump ended: {said}"
        said += line
    yield
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)


def frames_in(data: bytes) -> int:
    """How many frames a pcap file holds; -1 if the last one is not whole."""
    position, count = 24, 0
    while position + 16 <= len(data):
        position += 16 + int(struct.unpack_from("<I", data, position + 8)[0])
        count += 1
    return count if position == len(data) else -1


def snapshot(cable: Cable, directory: Path) -> dict[str, dict[str, int]]:
    """Copy both captures once they hold just what the cable took and gave; returns its counts at that moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        counts = cable.read_counts()
        held = {name: (directory / f"{name}.raw").read_bytes() for name in "ab"}
        wanted = {own: counts[own]["sent"] + counts[other]["arrived"] for own, other in ("ab", "ba")}
        if {name: frames_in(data) for name, data in held.items()} == wanted:
            for name, data in held.items():
                (directory / f"{name}.pcap").write_bytes(data)
            return counts
        assert time.monotonic() < deadline, f"captured {[*map(frames_in, held.values())]} of {wanted}"


def talk(first: Host, second: Host) -> None:
    """An endpoint on each host: one publishes small and large messages, the other answers some."""
    with first.entered():
        a = glue.Endpoint("a", interface="cable0").start()
    with second.entered():
        b = glue.Endpoint("b", interface="cable0").start()
    try:
        ear = listen(b, "t", a)
        listen(a, "u", b)
        for number in range(300):
            a.publish("t", bytes(10_000 if number % 10 == 0 else 100))
            if number % 20 == 0:
                b.publish("u", number)
            ear.wait(number + 1)
        assert a.flush(PATIENCE)
        assert b.flush(PATIENCE)
    finally:
        a.close()
        b.close()


@pytest.fixture(scope="module")
def measured(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    directory = tmp_path_factory.mktemp("network")
    with segment(2) as hosts:
        first, second = hosts
        with Cable(first.namespace, "cable0", second.namespace, "cable0", loss=0.05, duplicate=0.03) as cable:
            for host in hosts:
                with host.entered():
                    Path("/proc/sys/net/ipv6/conf/cable0/disable_ipv6").write_text("1")
                host.ip(f"address add 10.78.0.{host.number}/24 dev cable0", "link set cable0 up")
            with captured(first, directory / "a.raw"), captured(second, directory / "b.raw"):
                talk(first, second)
                counts = snapshot(cable, directory)
    captures = [str(directory / name) for name in ("a.pcap", "b.pcap")]
    result = run(spark, parser().parse_args([*captures, "--output", str(directory / "report")]))
    return Measured(counts, directory, result)


def others(path: Path, *fields: str, which: str = "not udp") -> list[str]:
    """What tshark tells of the frames that are not glue's (or of `which`): a line each."""
    options = [option for field in fields or ("frame.number",) for option in ("-e", field)]
    command = ["tshark", "-n", "-r", str(path), "-Y", which, "-T", "fields", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def total(result: Result, sender: str, receiver: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in result["pairs"]:
        if (row["sender"], row["receiver"]) == (sender, receiver):
            found.update({name: value for name, value in row.items() if isinstance(value, int)})
    return found


@pytest.mark.parametrize(("sender", "receiver"), [("a", "b"), ("b", "a")])
def test_loss_and_duplicates_are_those_that_the_cable_counted(measured: Measured, sender: str, receiver: str) -> None:
    found, cable = total(measured.result, sender, receiver), measured.counts[sender]
    # The cable also carried a few frames that are not glue's (ARP, IGMP, ICMP); tshark sees those at both ends.
    which = f"udp && ip.src == 10.78.0.{' ab'.index(sender)}"
    hardware = others(measured.directory / f"{sender}.pcap", "eth.src", which=which)[0]
    mine = f"(not udp or icmp) && eth.src == {hardware}"  # an ICMP error quotes a datagram
    left = len(others(measured.directory / f"{sender}.pcap", which=mine))
    came = len(others(measured.directory / f"{receiver}.pcap", which=mine))
    assert found["sent"] + found["unobserved"] + left == cable["sent"]
    assert found["arrived"] + found["duplicates"] + came == cable["arrived"]
    assert (
        found["lost"] + found["unobserved"] - found["duplicates"] + left - came == cable["lost"] - cable["duplicated"]
    )
    assert found["unobserved"] <= 4  # goodbyes, after which the other captured nothing any more
    assert found["lost"] > 0


@pytest.mark.parametrize("point", ["a", "b"])
def test_tshark_counts_the_same_datagrams_and_bytes(measured: Measured, point: str) -> None:
    lines = others(measured.directory / f"{point}.pcap", "ip.src", "udp.length", which="udp && !icmp")
    theirs: Counter[str] = Counter()
    for line in lines:
        source, length = line.split("\t")
        theirs[source] += 1
        theirs[f"bytes {source}"] += int(length) - 8
    other = "ab".replace(point, "")
    sent, come = total(measured.result, point, other), total(measured.result, other, point)
    own, peer = (f"10.78.0.{' ab'.index(name)}" for name in (point, other))
    assert theirs[own] == sent["sent"] + sent["unobserved"]
    assert theirs[f"bytes {own}"] == sent["bytes"]
    assert theirs[peer] == come["arrived"] + come["duplicates"]


def test_two_captures_on_one_machine_have_one_clock(measured: Measured) -> None:
    (clock,) = measured.result["clocks"]
    assert abs(clock["offset"]) <= clock["bound"] < 1e6


def test_the_terminal_and_the_files_tell_the_same(measured: Measured) -> None:
    lines = summary(measured.result)
    assert any("lost" in line and "of what a sent" in line for line in lines)
    report = measured.directory / "report"
    assert json.loads((report / "analysis.json").read_text())["pairs"] == measured.result["pairs"]
    assert (report / "tables" / "pairs.parquet").exists()


def pixels(png: bytes) -> Counter[bytes]:
    """How often each byte triple of the uncompressed rows occurs: enough to tell a drawing from an empty page."""
    data, position = b"", 8
    while position < len(png):
        (length,) = struct.unpack_from(">I", png, position)
        if png[position + 4 : position + 8] == b"IDAT":
            data += png[position + 8 : position + 8 + length]
        position += length + 12
    raw = zlib.decompress(data)
    return Counter(raw[i : i + 3] for i in range(0, len(raw) - 2, 997))


@browser.needs_browser
def test_the_report_is_drawn_by_a_real_browser_by_day_and_by_night(measured: Measured, tmp_path: Path) -> None:
    html = measured.directory / "report" / "report.html"
    text = html.read_text()
    assert "http://" not in text
    assert "https://" not in text  # nothing is fetched
    light = browser.screenshot(html, tmp_path / "light.png")
    dark = browser.screenshot(html, tmp_path / "dark.png", dark=True)
    assert len(light) > 50_000
    assert light != dark
    assert len(pixels(light)) > 30


@browser.needs_browser
def test_a_click_on_a_heading_sorts_the_table(measured: Measured, tmp_path: Path) -> None:
    html = tmp_path / "sorted.html"
    click = "<script>for (let i = 0; i < 2; i++) [...document.querySelectorAll('th button')]"
    click += ".find((b) => b.textContent === 'sent').click()</script>"
    html.write_text(page(measured.result).replace("</body>", f"{click}</body>"))
    document = browser.document(html)
    assert 'aria-sort="descending"' in document
    table = document.partition("<h2>Pairs</h2>")[2].partition("</table>")[0]
    place = next(number for number, head in enumerate(table.split("<th")) if ">sent<" in head) - 1  # [0], <thead>
    rows = [row.split("<td") for row in table.partition("<tbody>")[2].split("<tr>")[1:]]
    values = [int(row[place].partition('data-value="')[2].partition('"')[0]) for row in rows]
    assert values == sorted(values, reverse=True)
