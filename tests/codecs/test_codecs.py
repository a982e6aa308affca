"""Codecs: what goes in comes out, and nothing from the network does more than be refused."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glue import ConfigurationError, MissingExtraError, codecs
from glue.codecs import registry

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize("name", ["msgpack", "cbor"])
@settings(max_examples=50)
@given(value=values)
def test_values_come_back(name: str, value: Any) -> None:
    pytest.importorskip("msgpack" if name == "msgpack" else "cbor2")
    codec = codecs.codec_named(name)
    assert codec.decode(memoryview(bytes(codec.encode(value)))) == value


@pytest.mark.parametrize("name", ["msgpack", "cbor"])
def test_times_come_back(name: str) -> None:
    pytest.importorskip("msgpack" if name == "msgpack" else "cbor2")
    codec, noon = codecs.codec_named(name), datetime.datetime(2026, 11, 24, 12, tzinfo=datetime.UTC)
    assert codec.decode(bytes(codec.encode(noon))) == noon


ARRAYS = {
    "numbers": np.arange(12, dtype=">f4").reshape(3, 4),
    "one number": np.array(7),
    "nothing": np.zeros((0, 5), np.uint8),
    "columns first": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
    "every second": np.arange(10)[::2],
    "times": np.array(["2026-11-24"], "M8[ns]"),
    "fixed strings": np.array(["a", "bc"]),
    "structures": np.array([(1, (2.0, 3.0))], [("a", "<i4"), ("b", "<f8", (2,))]),
    "structures within": np.array([((1, 2), 3)], [("p", [("x", "<i2"), ("y", "<i2")]), ("z", "<i8")]),
    "structures with padding": np.array([(1, (2, 3), 4)], np.dtype("i1, (2,)i4, i2", align=True)),
    "some of the fields": np.array([(1, 2, 3)], [("a", "<i2"), ("b", "<i8"), ("c", "<i2")])[["a", "c"]],
    "fields with titles": np.array([(1, 2)], [(("height in m", "h"), "<i2"), ("w", "<i8")]),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_an_array_comes_back_equal_and_read_only(kind: str) -> None:
    codec, array = codecs.codec_named("numpy"), ARRAYS[kind]
    data = codec.encode(array)
    back = codec.decode(bytes(data))
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert not back.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        back.setflags(write=True)


def test_a_change_after_encoding_changes_nothing() -> None:
    array = np.zeros(100_000, np.uint8)
    data = codecs.codec_named("numpy").encode(array)
    array[:] = 1
    assert not any(data[-1000:])
    with pytest.raises(TypeError):
        data[0] = 1  # type: ignore[index]


def test_objects_do_not_travel() -> None:
    codec = codecs.codec_named("numpy")
    with pytest.raises(TypeError, match="pointers"):
        codec.encode(np.array([object()]))
    for dtype in ('"O"', '[["a","|O"]]', '"T"', "7", "null", '"V9999999999"'):
        with pytest.raises((TypeError, ValueError)):
            codec.decode(b'{"dtype":%b,"shape":[1]}\n' % dtype.encode() + bytes(8))


@pytest.mark.parametrize(
    "head",
    [
        b"", b"{}\n", b"[]\n", b'{"dtype":"<f8","shape":[2]}\n', b'{"dtype":"<f8","shape":[-1]}\n',
        b'{"dtype":"<f8","shape":[true]}\n', b'{"dtype":"<f8","shape":"1"}\n',
        b'{"dtype":"<f8","shape":[1],"order":"K"}\n',
        b'{"dtype":"<f8","shape":[1' + b",1" * 70 + b"]}\n", b'{"dtype":' + b"[" * 90 + b"]" * 90 + b',"shape":[]}\n',
    ],
)  # fmt: skip
def test_a_malformed_head_is_refused(head: bytes) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011
        codecs.codec_named("numpy").decode(head + bytes(8))


def tables() -> list[tuple[str, Any]]:
    batch = pa.record_batch({"n": [1, 2, None], "t": ["a", None, "c"], "l": [[1], [], [2, 3]]})
    words = pa.table({"d": pa.array(["x", "y", "x"]).dictionary_encode()})
    return [("arrow", batch), ("arrow-table", pa.Table.from_batches([batch, batch])), ("arrow-table", words)]


@pytest.mark.parametrize("place", range(3))
def test_arrow_data_come_back_in_the_memory_of_the_message(place: int) -> None:
    name, table = tables()[place]
    assert codecs.codec_of_type(type(table)) == name
    codec = codecs.codec_named(name)
    data = bytes(codec.encode(table))
    before = pa.total_allocated_bytes()
    back = codec.decode(data)
    assert back.equals(table)
    assert pa.total_allocated_bytes() - before < 1024


def test_compressed_arrow_streams_are_refused() -> None:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"n": list(range(1000))})
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write(batch)
    with pytest.raises(ValueError, match="compressed"):
        codecs.codec_named("arrow").decode(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("name", ["msgpack", "cbor", "numpy", "arrow", "arrow-table"])
def test_damage_raises_an_exception_and_nothing_worse(name: str) -> None:
    pytest.importorskip({"msgpack": "msgpack", "cbor": "cbor2"}.get(name, "numpy"))
    codec, luck = codecs.codec_named(name), random.Random(name)
    sound = {"numpy": ARRAYS["structures"], "arrow": tables()[0][1], "arrow-table": tables()[1][1]}
    good = bytes(codec.encode(sound.get(name, {"a": [1, 2.5, b"x", "y"], "b": {"c": None}})))
    refused = 0
    for _ in range(300):
        data = bytearray(good)
        for _ in range(luck.randint(1, 4)):
            data[luck.randrange(len(data))] = luck.randrange(256)
        try:
            codec.decode(bytes(data[: luck.randint(1, len(data))]))
        except Exception:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("name", "bomb"),
    [
        ("msgpack", b"\x91" * 100_000), ("msgpack", b"\xdd\xff\xff\xff\xff"), ("msgpack", b"\xc6\xff\xff\xff\xff"),
        ("cbor", b"\x81" * 100_000), ("cbor", b"\x9b\x00\x00\x7f\xff\xff\xff\xff\xff"),
        ("cbor", b"\x5b\x00\x00\x7f\xff\xff\xff\xff\xff"),
        ("cbor", b"\xd8\x1d\x00" * 10),
    ],
)  # fmt: skip
def test_a_bomb_is_refused(name: str, bomb: bytes) -> None:
    pytest.importorskip("msgpack" if name == "msgpack" else "cbor2")
    with pytest.raises(Exception):  # noqa: B017, PT011
        codecs.codec_named(name).decode(bomb)


class Reversed:
    name = "reversed"

    def encode(self, value: str) -> bytes:
        return value[::-1].encode()

    def decode(self, data: bytes | memoryview) -> str:
        return bytes(data).decode()[::-1]


def test_a_program_registers_a_codec_and_its_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.setattr(registry, "_types", {})
    codecs.register(Reversed(), complex)
    assert codecs.codec_for("reversed")[1] == "reversed"
    assert codecs.codec_of_type(complex) == "reversed"


def test_what_cannot_be_registered() -> None:
    for bad in (
        object(),
        type("N", (), {"name": ""})(),
        type("N", (), {"name": "x" * 65})(),
        type("N", (), {"name": "x"})(),
    ):
        with pytest.raises(ConfigurationError):
            codecs.register(bad)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="glue has"):
        codecs.register(type("N", (Reversed,), {"name": "cbor"})())


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.setitem(__import__("sys").modules, "msgpack", None)
    monkeypatch.delitem(__import__("sys").modules, "glue.codecs.msgpack", raising=False)
    with pytest.raises(MissingExtraError, match=r"glue-lan\[codecs\]"):
        codecs.codec_for("msgpack")


def test_an_entry_point_gives_a_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        value = "package:Reversed"

        @staticmethod
        def load() -> type:
            return Reversed

    def entry_points(group: str, name: str) -> list[type]:
        return [Point] if (group, name) == ("glue.codecs", "reversed") else []

    monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    assert codecs.codec_named("reversed").decode(b"ba") == "ab"
    with pytest.raises(codecs.UnknownCodecError, match="known are"):
        codecs.codec_named("other")
