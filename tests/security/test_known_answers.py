"""The ciphers and the key derivation give the answers that their standards state."""

from __future__ import annotations

from random import Random

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from glue.security import Epoch, Key, Suite
from glue.security.at_rest import sealed_directory
from glue.security.suites import AES_GCM, CHACHA, _primitive, derived
from glue.simulation.disk import SimulatedDisk

SUNSCREEN = b" ".join(
    [
        b"Ladies and Gentlemen of the class of '99:",
        b"If I could offer you only one tip for the future, sunscreen would be it.",
    ]
)


def test_hkdf_of_rfc_5869_appendix_a_1() -> None:
    found = derived(bytes([0x0B]) * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)), 42)
    assert found.hex() == ("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")
    assert found == HKDF(SHA256(), 42, bytes(range(13)), bytes(range(0xF0, 0xFA))).derive(bytes([0x0B]) * 22)


def test_chacha20_poly1305_of_rfc_8439_section_2_8_2() -> None:
    made = _primitive(CHACHA.kind)(bytes(range(0x80, 0xA0)))
    nonce = bytes.fromhex("070000004041424344454647")
    sealed = made.encrypt(nonce, SUNSCREEN, bytes.fromhex("50515253c0c1c2c3c4c5c6c7"))
    assert sealed.hex() == (
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
        "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
        "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
        "3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691"
    )


def test_aes_256_gcm_of_test_case_16_in_the_specification_for_nist() -> None:
    made = _primitive(AES_GCM.kind)(bytes.fromhex("feffe9928665731c6d6a8f9467308308") * 2)
    plain = bytes.fromhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    )
    sealed = made.encrypt(
        bytes.fromhex("cafebabefacedbaddecaf888"), plain, bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    )
    assert sealed.hex() == (
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"
    )


STORED = {
    AES_GCM.name: "e5676c75e18e000000000000000000000003000102030405060708090a0b0c0d0e0f000102030405060708090a0b7d19cf0d"
    "9bbaefd1d2cadc4d59e49ae690d565e2666a94a5",
    CHACHA.name: "e5676c75e28e000000000000000000000003000102030405060708090a0b0c0d0e0f000102030405060708090a0b4522447e"
    "444ef2d0bd65fd1ddf3341f8b3f9db436908f8a5",
}
"""A file "log" that holds "one", as it was sealed on 2026-11-28."""


@pytest.mark.parametrize("suite", [AES_GCM, CHACHA], ids=lambda suite: suite.name)
def test_a_file_that_was_sealed_before_is_read_and_written_alike(suite: Suite) -> None:
    disk = SimulatedDisk(Random(1))
    key = Key((Epoch(1, bytes(range(32))),))
    directory = sealed_directory(disk, key, suite, lambda size: bytes(range(size)))
    before = bytes.fromhex(STORED[suite.name])
    disk.create("log")
    disk.append("log", before)
    assert directory.read("log") == b"one"
    directory.create("log")
    directory.append("log", b"one")
    assert disk.read("log") == before
