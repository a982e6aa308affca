"""What codecs write, byte for byte, what they refuse at each limit, and which names and numbers they have."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from glue import ConfigurationError, MissingExtraError, codecs
from glue.codecs import registry

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

ARRAYS = codecs.codec_named("numpy")


@pytest.mark.parametrize(("array", "head"), [
    (np.arange(3, dtype="u1"), b'{"dtype":"|u1","shape":[3]}    \n'),
    (np.zeros((2, 3), "<f4"), b'{"dtype":"<f4","shape":[2,3]}  \n'),
    (np.asfortranarray(np.zeros((2, 3), "<f4")), b'{"dtype":"<f4","shape":[2,3],"order":"F"}      \n'),
    (np.zeros((3, 2), "<f4").T[:, ::2], b'{"dtype":"<f4","shape":[2,2]}  \n'),
    (np.array(7, "<i8"), b'{"dtype":"<i8","shape":[]}     \n'),
    (np.zeros((0, 5), "u1"), b'{"dtype":"|u1","shape":[0,5]}  \n'),
    (np.zeros(1234, "u1"), b'{"dtype":"|u1","shape":[1234]} \n'),
    (np.zeros(12345, "u1"), b'{"dtype":"|u1","shape":[12345]}\n'),
    (np.zeros(123456, "u1"), b'{"dtype":"|u1","shape":[123456]}' + b" " * 15 + b"\n"),
    (np.zeros(1, [("a", "<i4"), ("b", "<f8", (2,))]), b'{"dtype":[["a","<i4"],["b","<f8",[2]]],"shape":[1]}'),
])  # fmt: skip
def test_an_array_is_a_line_and_its_memory(array: Any, head: bytes) -> None:
    data = bytes(ARRAYS.encode(array))
    line = data[: data.index(b"\n") + 1]
    assert line.startswith(head)
    assert (len(line) % 16, len(line) - len(line.rstrip()) <= 16) == (0, True)
    order = "F" if b'"order"' in head else "C"
    assert data[len(line) :] == array.tobytes(order)
    back = ARRAYS.decode(data)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert back.flags.f_contiguous or order == "C"


@pytest.mark.parametrize("dtype", ["?", "<i2", ">u8", "<f2", "<c8", "<m8[s]", "<M8[ms]", "S3", "<U2", "V4"])
def test_every_kind_of_plain_memory_travels(dtype: str) -> None:
    array = np.zeros(4, dtype)
    back = ARRAYS.decode(memoryview(bytes(ARRAYS.encode(array))))
    assert (back.dtype, back.tobytes()) == (array.dtype, array.tobytes())
    assert ARRAYS.decode(bytes(ARRAYS.encode([1, 2]))).tolist() == [1, 2]


def told(dtype: bytes = b'"|u1"', shape: bytes = b"[1]", more: bytes = b"", data: bytes = b"x") -> bytes:
    return b'{"dtype":' + dtype + b',"shape":' + shape + more + b"}\n" + data


def nested(levels: int) -> bytes:
    text = b'"|u1"'
    for _ in range(levels):
        text = b'[["a",' + text + b"]]"
    return text


@pytest.mark.parametrize(("data", "shape"), [
    (told(), (1,)), (told(shape=b"[0]", data=b""), (0,)), (told(shape=b"[]"), ()), (told(more=b',"order":"C"'), (1,)),
    (told(more=b',"order":"F"'), (1,)), (told(shape=b"[1" + b",1" * 31 + b"]"), (1,) * 32), (told(nested(1)), (1,)),
    (told(nested(17)), (1,)), (told(b'[["a","|u1",[1]]]'), (1,)), (told(b'[[["title","a"],"|u1"]]'), (1,)),
    (told(more=b" " * (65_535 - 27)), (1,)),
])  # fmt: skip
def test_an_array_within_the_limits_is_read(data: bytes, shape: tuple[int, ...]) -> None:
    assert ARRAYS.decode(data).shape == shape


@pytest.mark.parametrize(("data", "error"), [
    (b"x", "no head"), (told(more=b" " * (65_536 - 27)), "no head"), (told(shape=b"1"), "shape"),
    (told(shape=b"[1" + b",1" * 64 + b"]"), "shape"), (told(shape=b"[-1]"), "shape"), (told(shape=b"[true]"), "shape"),
    (told(shape=b"[1.0]"), "shape"), (told(more=b',"order":"K"'), "shape"), (told(data=b""), "size"),
    (told(data=b"xx"), "size"), (told(shape=b"[2]"), "size"), (told(nested(18)), "dtype"), (told(b"{}"), "dtype"),
    (told(b'["a"]'), "dtype"), (told(b'[["a"]]'), "dtype"), (told(b'[["a","|u1",[1],1]]'), "dtype"),
])  # fmt: skip
def test_an_array_beyond_a_limit_is_refused_with_the_cause(data: bytes, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}$"):
        ARRAYS.decode(data)


@pytest.mark.parametrize("dtype", ["O", "O,i4"])
def test_pointers_are_refused_at_both_ends(dtype: str) -> None:
    with pytest.raises(TypeError, match="has pointers to objects, which do not travel; use numbers or fixed strings"):
        ARRAYS.encode(np.zeros(1, dtype))
    with pytest.raises(TypeError, match="has pointers to objects"):
        ARRAYS.decode(told(b'"|O"', data=bytes(8)))


# ------------------------------------------------------------------------------------------------- arrow

BATCH = pa.record_batch({"n": [1, 2, None], "t": ["a", None, "c"]})
TABLE = pa.Table.from_batches([BATCH, BATCH])


def stream(value: Any, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write(value)
    return bytes(sink.getvalue().to_pybytes())


def test_arrow_data_are_the_stream_that_arrow_itself_writes() -> None:
    batches, tables = codecs.codec_named("arrow"), codecs.codec_named("arrow-table")
    assert (batches.name, tables.name) == ("arrow", "arrow-table")
    assert bytes(batches.encode(BATCH)) == stream(BATCH)
    assert bytes(tables.encode(TABLE)) == stream(TABLE)
    encoded = batches.encode(BATCH)
    assert (memoryview(encoded).readonly, memoryview(encoded).format) == (True, "B")
    assert batches.decode(stream(TABLE)).equals(BATCH), "the first of them"
    assert tables.decode(stream(TABLE)).equals(TABLE)
    for codec, value, expected in ((batches, TABLE, "RecordBatch"), (tables, BATCH, "Table"), (tables, 7, "Table")):
        with pytest.raises(TypeError, match=rf"^expected a pyarrow\.{expected}$"):
            codec.encode(value)


def test_streams_that_are_compressed_or_none_are_refused_with_the_cause() -> None:
    codec = codecs.codec_named("arrow-table")
    words = pa.table({"d": pa.array([*map(str, range(500))]).dictionary_encode()})
    for value in (pa.table({"n": [*range(1000)]}), words):
        for compression in ("zstd", "lz4"):
            with pytest.raises(ValueError, match=r"^compressed$"):
                codec.decode(stream(value, compression=compression))
        assert codec.decode(stream(value)).equals(value)
    good = stream(TABLE)
    second = 8 + int.from_bytes(good[4:8], "little")
    for bad, error in (
        (b"\x00" + good[1:], "no Arrow stream"), (good[:second] + b"\x00" + good[second + 1 :], "no Arrow stream"),
        (good[:4] + b"\xff" * 4 + good[8:], "no Arrow stream"),
        (b"\xff" * 4 + b"\x04\0\0\0" + b"\xff" * 4, "no Arrow message"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=error):
            codec.decode(bad)


def test_a_stream_with_a_compressed_dictionary_alone_is_refused() -> None:
    words = pa.record_batch({"d": pa.array([*map(str, range(500))]).dictionary_encode()})
    plain, compressed = (
        [one.serialize().to_pybytes() for one in pa.ipc.MessageReader.open_stream(stream(words, compression=name))]
        for name in (None, "zstd")
    )
    assert len(plain) == len(compressed) == 3
    codec = codecs.codec_named("arrow")
    assert codec.decode(b"".join(plain)).equals(words)
    for dictionary, batch in ((compressed[1], plain[2]), (plain[1], compressed[2])):
        with pytest.raises(ValueError, match=r"^compressed$"):
            codec.decode(plain[0] + dictionary + batch)


def test_offsets_that_go_back_are_refused() -> None:
    codec = codecs.codec_named("arrow")
    good, bad = struct.pack("<4i", 0, 1, 1, 2), struct.pack("<4i", 0, 2, 1, 2)
    data = stream(BATCH)
    assert data.count(good) == 1
    with pytest.raises(pa.ArrowInvalid):
        codec.decode(data.replace(good, bad))


# ----------------------------------------------------------------------------------------------- the names


class Plain:
    """A codec of any name."""

    def __init__(self, name: Any) -> None:
        self.name = name

    def encode(self, value: Any) -> bytes:
        return bytes(value)

    def decode(self, data: bytes | memoryview) -> Any:
        return bytes(data)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.setattr(registry, "_types", {})


def test_numbers_and_names_of_codecs() -> None:
    names = ["msgpack", "cbor", "numpy", "arrow", "arrow-table"]
    assert [codecs.name_of_tag(number) for number in range(1, 6)] == names
    assert [codecs.tag_of(name) for name in (*names, "own")] == [1, 2, 3, 4, 5, "own"]
    assert (codecs.name_of_tag(6), codecs.name_of_tag("own")) == ("6", "own")
    assert codecs.codec_of_tag(3) is codecs.codec_named("numpy") is codecs.codec_for("numpy")[0]
    assert codecs.codec_for("numpy")[1] == 3
    with pytest.raises(codecs.UnknownCodecError, match=r"^codec 'cbor': its number belongs here, not its name$"):
        codecs.codec_of_tag("cbor")
    known = "arrow, arrow-table, cbor, msgpack, numpy"
    with pytest.raises(codecs.UnknownCodecError, match=f"^codec '6' is unknown here; known are {known}; glue.codecs"):
        codecs.codec_of_tag(6)
    with pytest.raises(ConfigurationError, match=r"^codec 'none' is unknown here"):
        codecs.codec_for("none")
    with pytest.raises(ConfigurationError, match=r"^codec=7: expected the name of a codec, such as 'msgpack'$"):
        codecs.codec_for(7)


def test_the_type_of_a_payload_chooses_its_codec() -> None:
    kinds = (np.ndarray, pa.RecordBatch, pa.Table, int, dict)
    assert [codecs.codec_of_type(kind) for kind in kinds] == ["numpy", "arrow", "arrow-table", None, None]
    codecs.register(Plain("own"), np.ndarray, complex)
    assert [codecs.codec_of_type(kind) for kind in (np.ndarray, complex, int)] == ["own", "own", None]
    second = Plain("own")
    codecs.register(second)
    assert codecs.codec_of_tag("own") is second
    assert codecs.codec_of_type(complex) == "own"


def test_a_codec_has_a_name_of_64_bytes_at_most_and_two_functions() -> None:
    for name in ("x" * 64, "é" * 32, "x"):
        codecs.register(Plain(name))
        assert codecs.codec_for(name)[1] == name
    for wrong in ("x" * 65, "é" * 32 + "x", "", None, b"x"):
        with pytest.raises(ConfigurationError, match=r"its name is .*; expected 1 to 64 bytes"):
            codecs.register(Plain(wrong))
    for function in ("encode", "decode"):
        lame: Any = Plain("lame")
        setattr(lame, function, None)
        with pytest.raises(ConfigurationError, match=f"^codec 'lame': it has no function '{function}'$"):
            codecs.register(lame)
    with pytest.raises(ConfigurationError, match=r"^codec 'numpy': glue has a codec of this name; choose another one$"):
        codecs.register(Plain("numpy"), complex)
    assert codecs.codec_of_type(complex) is None, "what is refused changes nothing"


def test_an_installed_codec_is_loaded_once_and_has_the_name_that_it_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def entry_points(group: str, name: str) -> list[Any]:
        asked.append(f"{group} {name}")
        return [SimpleNamespace(value="package:made", load=lambda: Plain("other" if name == "false" else name))]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    assert codecs.codec_named("own") is codecs.codec_named("own")
    assert asked == ["glue.codecs own"]
    with pytest.raises(codecs.UnknownCodecError, match="'false': the entry point 'package:made' gives one of another"):
        codecs.codec_named("false")


def test_an_unknown_codec_of_received_messages_is_looked_for_once_and_found_once_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def entry_points(group: str, name: str) -> list[Any]:
        asked.append(name)
        return []

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    monkeypatch.setattr(registry, "_unknown", set())
    monkeypatch.setattr(registry, "_loaded", {})
    for _ in range(3):
        with pytest.raises(codecs.UnknownCodecError, match="'seldom' is unknown here"):
            registry.codec_of_tag("seldom")
    assert asked == ["seldom"]
    with pytest.raises(codecs.UnknownCodecError):
        codecs.codec_named("seldom")  # a publisher's own: it may have been installed meanwhile
    codecs.register(Plain("seldom"))
    assert registry.codec_of_tag("seldom").name == "seldom"
    for number in range(1000):
        with pytest.raises(codecs.UnknownCodecError):
            registry.codec_of_tag(f"{number}")
    assert len(registry._unknown) <= registry.UNKNOWN_LIMIT == 256


@pytest.mark.parametrize(("package", "is_missing"), [("cbor2", True), ("cbor2.x", True), (None, True), ("os2", False)])
def test_only_the_library_of_a_codec_is_an_extra(
    package: str | None, is_missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> Any:
        raise ImportError("none", name=package)

    monkeypatch.setattr(registry, "import_module", fail)
    with pytest.raises(MissingExtraError if is_missing else ImportError) as raised:
        codecs.codec_named("cbor")
    assert isinstance(raised.value, MissingExtraError) == is_missing
    assert ("glue-lan[codecs]" in str(raised.value)) == is_missing


def shared(index: int) -> bytes:
    """A reference to a shared value of CBOR."""
    return b"\xd8\x1d\x18" + bytes([index])


DOUBLED = b"\xd8\x1c\x82\x01\x02" + b"".join(b"\xd8\x1c\x82" + 2 * shared(index) for index in range(39))
"""Lists of CBOR of which each has the one before it twice: 2^40 numbers in 360 bytes, and as much work as a key."""


@pytest.mark.parametrize("data", [
    b"\x98\x28" + DOUBLED,
    b"\x98\x28" + DOUBLED.replace(b"\xd8\x1d", b"\xd9\0\x1d"),
    b"\x98\x28" + DOUBLED.replace(b"\xd8\x1d", b"\xda\0\0\0\x1d"),
    b"\x98\x28" + DOUBLED.replace(b"\xd8\x1d", b"\xdb\0\0\0\0\0\0\0\x1d"),
    b"\xa1\x98\x28" + DOUBLED + b"\x01",
    b"\x82\x58\x21" + b"\xd8\x1d" * 16 + b"x\xd8\x1c\x81" + shared(0),
    b"\x82\xf9\x3c\x00\x82\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a\xd8\x1c\x81" + shared(0),
    b"\x83\x5f\x41a\x42bc\xff\x9f\x01\xff\xd8\x1c\x81" + shared(0),
    b"\xd8\x1c\xa1\x01" + shared(0),
    b"\x82\x59\x07\xd0" + bytes(2000) + b"\xd8\x1c\x81" + shared(0),
    b"\x82\xd8\x1c\x81" + shared(0) + b"\x59\x07\xd0" + bytes(2000),
    b"\x9f" + b"\x01" * 3000 + b"\xd8\x1c\x81" + shared(0) + b"\xff",
    b"\x9f" + b"\x01" * 3000 + b"\x42\xd8\x1d\xd8\x1c\x81" + shared(0) + b"\x01" * 3000 + b"\xff",
    b"\xd9\x01\x00\x98\x65\x58\x64" + b"a" * 100 + b"\xd8\x19\x00" * 100,
])  # fmt: skip
def test_cbor_that_refers_to_earlier_values_is_refused_before_it_is_decoded(data: bytes) -> None:
    pytest.importorskip("cbor2")
    with pytest.raises(ValueError, match=r"CBOR with references \(tags 25 and 29\) is not decoded"):
        codecs.codec_named("cbor").decode(data)


@pytest.mark.parametrize("value", [
    b"\xd8\x1d" * 1000, "\u0758\x1d", ["\u0658\x19", 1.5, -7, 2**70, None], {"a": [b"\xd8\x19", True]}, 0xD81D,
    [*range(2000), b"\xd8\x19", *range(2000)], b"\xd8\x19" * 1000 + b"x", ["x" * 3000, b"\xd8\x1d"],
])  # fmt: skip
def test_bytes_that_look_like_a_reference_are_values(value: Any) -> None:
    cbor2, cbor = pytest.importorskip("cbor2"), codecs.codec_named("cbor")
    assert cbor.decode(bytes(cbor.encode(value))) == value
    assert cbor.decode(cbor2.dumps([value, {"z": value}])) == [value, {"z": value}]
