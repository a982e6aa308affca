"""Readers of headers need nothing but what the layers declare: tables follow from that, and fields may be added."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glue.capture.entries import BEGIN, END, ENTRIES, LARGEST, as_lua, entry_of, main, named, tables
from glue.contract.header import MAX_HEADER, Field, HeaderEntry, Text
from tests.capture.one_more_field import NAME, VALUE
from tests.capture.tools import tshark, with_tshark
from tests.spark.captures import frame, pcap

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "wire-format.md").read_text()
LAYERS = "glue", "discovery", "transport", "fragment"
VECTORS: list[dict[str, Any]] = json.loads((ROOT / "tests/golden/vectors.json").read_text())


@pytest.mark.parametrize("path", tables(ROOT), ids=lambda path: path.name)
def test_the_tables_for_other_readers_are_what_the_layers_declare(path: Path) -> None:
    """Else `python -m glue.capture.entries` writes them anew."""
    assert path.read_text() == tables(ROOT)[path]


def test_the_tables_of_a_clone_are_written_and_the_rest_of_its_files_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in tables(ROOT):
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "extras" / "glue.lua").write_text(f"before\n{BEGIN}old\n{END}behind\n")
    monkeypatch.setattr("sys.argv", ["entries", str(tmp_path)])
    main()
    assert {path.read_text() for path in tmp_path.rglob("*.*")} == {
        (ROOT / "docs" / "entries.json").read_text(), (ROOT / "spark" / "read" / "entries.py").read_text(),
        f"before\n{BEGIN}{as_lua()}{END}behind\n",
    }  # fmt: skip


def test_the_largest_header_is_within_its_limit() -> None:
    assert LARGEST <= MAX_HEADER


@pytest.mark.parametrize("layer", ["glue", "fragment", "transport"])
def test_the_wire_format_shows_the_entries_of_a_layer_as_they_are_declared(layer: str) -> None:
    shown = re.findall(r"`\[([^`]*)\]`", DOCUMENT)
    for entry in ENTRIES:
        if entry.layer == layer:
            names = [f'"{entry.kind}"' if name == "kind" else name for name in entry.names]
            if entry.kind == "group":  # its acknowledgement is always empty
                names = ["0" if name.startswith("ack_") else name for name in names]
            assert ", ".join(names) in shown


def test_the_wire_format_names_each_kind_and_field_of_discovery() -> None:
    section = DOCUMENT.partition("## Discovery\n")[2].partition("\n### ")[0]
    for entry in ENTRIES:
        if entry.layer == "discovery":
            assert f"| `{entry.kind}` |" in section
            assert all(f"`{name}`" in section for name in entry.names if name != "kind")


def test_there_is_a_golden_datagram_of_each_kind() -> None:
    kinds = {(layer, vector[layer].get("kind")) for vector in VECTORS for layer in LAYERS if layer in vector}
    assert {(entry.layer, entry.kind) for entry in ENTRIES} - kinds == {
        ("discovery", "call"),  # where multicast does not reach
        ("discovery", "introduce"),
    }


# ----------------------------------------------------------------------------------------- declarations

SAMPLE = HeaderEntry("layer", "kind", Field("first", most=99), Text("name", 4, "ab"), Field("last"))
LATE = HeaderEntry("layer", "late", Field("first"), Field("more", default=None, optional=True), kind_last=True)


def test_an_entry_is_packed_checked_and_read_by_the_names_of_its_fields() -> None:
    assert SAMPLE.pack(last=5) == SAMPLE.packer("last")(5) == ["kind", 0, "ab", 5]
    assert SAMPLE.getter("last", "first")(["kind", 1, "cd", 2]) == (2, 1)
    assert SAMPLE.named(["kind", 1, "cd", 2]) == {"kind": "kind", "first": 1, "name": "cd", "last": 2}
    assert SAMPLE.fits(["kind", 1, "cd", 2])
    wrong: Any
    for wrong in (["kind", 1, "cd"], ["kind", 1, "cd", 2**53], ["kind", True, "cd", 2], ["kind", 1, 2, 2], {}, "kind"):
        assert not SAMPLE.fits(wrong)


def test_an_optional_field_is_left_out_only_where_nothing_but_the_kind_follows() -> None:
    assert LATE.pack(first=1) == [1, "late"]
    assert LATE.pack(more=2) == [0, 2, "late"]
    assert LATE.named([1, "late"]) == {"first": 1, "kind": "late"}


def test_templates_and_patterns_agree_with_what_is_packed() -> None:
    text = SAMPLE.template(last=b"%d") % 12
    assert text == b'"layer":["kind",0,"ab",12]'
    found = re.fullmatch(SAMPLE.pattern(last=rb"(\d+)"), text)
    assert found is not None
    assert found.groups() == (b"12",)
    assert len(SAMPLE.template(first=b"99", name=b'"abcd"', last=b"%d") % (2**53 - 1)) == SAMPLE.size - len(",")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_the_layer_of_a_list_and_its_kind_tell_what_its_fields_are(vector: dict[str, Any]) -> None:
    for layer in LAYERS:
        if layer in vector:
            values = [*vector[layer].values()]
            entry = entry_of(layer, values)
            assert entry is not None
            assert named({layer: values}) == {layer: vector[layer]}


def test_a_kind_stands_at_the_beginning_or_the_end_of_a_list() -> None:
    for layer, kind in ((entry.layer, entry.kind) for entry in ENTRIES if entry.kind):
        assert entry_of(layer, [kind, 1, 2, 3]) == entry_of(layer, [0, 1, 2, kind]) is not None
        assert entry_of(layer, [0, kind, 2, 3]) is None
        assert entry_of(layer, [0, 1, kind, 3]) is None


# ------------------------------------------------------------------------------------- one more field


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a process made in which every entry has one more field."""
    made = tmp_path_factory.mktemp("one-more-field")
    for path in tables(ROOT):
        (made / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "extras" / "glue.lua", made / "extras")
    command = [sys.executable, "-m", "tests.capture.one_more_field", str(made)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def told(folder: Path, reader: str) -> Any:
    return json.loads((folder / "told.json").read_text())[reader]


def without(vectors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What datagrams mean but for the new fields, each of which must be there."""
    plain = copy.deepcopy(vectors)
    for vector in plain:
        for layer in LAYERS:
            if layer in vector:
                assert vector[layer].pop(NAME) == VALUE
                vector[layer].pop("known", None)  # null where it was left out before
    return plain


def test_one_more_field_passes_through_all_layers_and_changes_nothing_else(folder: Path) -> None:
    expected = copy.deepcopy(VECTORS)
    for vector in expected:
        vector.get("discovery", {}).pop("known", None)
    assert without(told(folder, "glue")) == expected


def test_one_more_field_is_told_by_scapy(folder: Path) -> None:
    for vector in told(folder, "glue"):
        layers = {layer: vector[layer] for layer in LAYERS if layer in vector}
        assert told(folder, "scapy")[vector["name"]] == layers


def test_one_more_field_is_passed_over_by_the_reader_of_the_analysis(folder: Path) -> None:
    for vector in VECTORS:
        columns = told(folder, "analysis")[vector["name"]]
        assert columns["counter"] == vector["glue"]["counter"]
        transport = vector.get("transport", {})
        assert columns.get("sequence") == transport.get("sequence", transport.get("first"))
        assert columns.get("ack_next") == transport.get("next", transport.get("ack_next"))
        assert columns.get("fragment_index") == vector.get("fragment", {}).get("index")


def test_one_more_field_is_told_by_the_decoder_in_another_language(folder: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is missing (on Debian: apt-get install nodejs)")
    command = [node, str(ROOT / "tests/node/decode.mjs"), str(folder), str(folder / "docs" / "entries.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert json.loads(done.stdout) == told(folder, "glue")


@with_tshark
def test_one_more_field_is_passed_over_by_wireshark(folder: Path) -> None:
    vectors = told(folder, "glue")
    datagrams = [(folder / f"{vector['name']}.datagram").read_bytes() for vector in vectors]
    (folder / "trace.pcap").write_bytes(pcap([frame(datagram) for datagram in datagrams]))
    rows = tshark(folder / "trace.pcap", folder / "extras" / "glue.lua", ["counter", "sequence", "fragment.index"])
    assert rows == [
        {
            "counter": str(vector["glue"]["counter"]),
            "sequence": str(vector.get("transport", {}).get("sequence", vector.get("transport", {}).get("first", ""))),
            "fragment.index": str(vector.get("fragment", {}).get("index", "")),
        }
        for vector in vectors
    ]
