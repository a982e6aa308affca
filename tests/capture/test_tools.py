"""scapy and Wireshark decode glue's datagrams, each with what glue brings along for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from glue.capture.scapy_layer import GluePacket
from tests.capture.tools import tshark, with_tshark
from tests.spark.captures import GOLDEN, frame, pcap

ROOT = Path(__file__).parents[2]
VECTORS = {vector["name"]: vector for vector in json.loads((ROOT / "tests/golden/vectors.json").read_text())}


@pytest.mark.parametrize("name", GOLDEN)
def test_scapy_decodes_each_golden_datagram(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    packet = Ether(frame(GOLDEN[name]))
    layer = packet[GluePacket]
    assert bytes(packet)[42:] == GOLDEN[name]
    assert bytes(layer.payload) == bytes.fromhex(VECTORS[name]["body"])
    for key in ("glue", "discovery", "transport", "fragment"):
        for field, value in VECTORS[name].get(key, {}).items():
            assert layer.entries[key][field] == value
    packet.show()
    assert f"glue.sender = '{VECTORS[name]['glue']['sender']}'" in capsys.readouterr().out


def test_scapy_knows_unicast_and_builds_what_it_knows() -> None:
    built = IP() / UDP(sport=5000, dport=6000) / GluePacket(header=b'{"glue":[1,1,"00",0,7]}') / b"body"
    assert bytes(built)[28:] == b'{"glue":[1,1,"00",0,7]}\nbody'
    assert IP(bytes(built))[GluePacket].entries["glue"]["counter"] == 7
    assert GluePacket not in IP(bytes(IP() / UDP(dport=6000) / b"other"))
    assert IP(bytes(IP() / UDP(dport=37320) / b"\xffsealed"))[GluePacket].entries == {}


@with_tshark
def test_wireshark_decodes_each_golden_datagram(tmp_path: Path) -> None:
    (tmp_path / "trace.pcap").write_bytes(pcap([frame(datagram) for datagram in GOLDEN.values()]))
    fields = ["kind", "sender", "incarnation", "counter", "attempt", "sequence", "ack.next", "fragment.index"]
    rows = tshark(tmp_path / "trace.pcap", ROOT / "extras" / "glue.lua", fields)
    assert len(rows) == len(GOLDEN)
    for row, name in zip(rows, GOLDEN, strict=True):
        told = VECTORS[name]
        transport, fragment = told.get("transport", {}), told.get("fragment", {})
        kind = transport.get("kind") or told["discovery"]["kind"]
        wanted = {
            "kind": kind,
            "sender": told["glue"]["sender"],
            "incarnation": told["glue"]["incarnation"],
            "counter": told["glue"]["counter"],
            "attempt": transport.get("attempt", ""),
            "sequence": transport.get("sequence", transport.get("first", "")),
            "ack.next": transport.get("next", transport.get("ack_next", "")),
            "fragment.index": fragment.get("index", ""),
        }
        assert row == {field: str(value) for field, value in wanted.items()}
