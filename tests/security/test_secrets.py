"""What endpoints make of the files of keys, identities and rules: what is refused, in which words, and what is kept."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.endpoint import secrets
from glue.endpoint.secrets import (
    KeyFile,
    fastest_suite,
    open_secrets,
    read_key,
    read_open,
    read_secret,
    read_storage_key,
    write_secret,
)
from glue.errors import ConfigurationError
from glue.security.guard import POLICY_SIZE, Policy
from glue.security.identity import MemberIdentity
from glue.security.key import new_key, rotated
from glue.security.signing import public_of
from glue.security.suites import AES_GCM, CHACHA

pytest.importorskip("cryptography")
SEED = bytes(range(32))


def refused(call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def test_a_secret_is_a_file_that_its_owner_alone_may_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_secret(path, "text")
    assert (path.stat().st_mode & 0o777, read_secret(path), os.listdir(tmp_path)) == (0o600, b"text", ["a"])
    for mode, is_private in ((0o400, True), (0o700, True), (0o640, False), (0o602, False), (0o601, False)):
        path.chmod(mode)
        if is_private:
            assert read_secret(str(path), "identity") == b"text"
        else:
            assert refused(read_secret, path, "identity") == (
                f"identity='{path}': others may read or write this file; protect it with: chmod 600 {path}"
            )
    gone = tmp_path / "gone"
    for kind, words in secrets.MAKE.items():
        told = refused(read_secret, gone, kind)
        assert told == f"{kind}='{gone}': no such file; make one with: glue key {words} {gone}"
    assert refused(read_secret, tmp_path) in (
        f"key='{tmp_path}': not a file", f"key='{tmp_path}': Is a directory; it must be readable for this user",
    )  # fmt: skip
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert refused(read_secret, pipe) == f"key='{pipe}': not a file"
    assert refused(read_open, pipe, 9) == f"{pipe}: not a file"
    assert refused(read_open, gone, 9) == f"{gone}: No such file or directory"
    path.chmod(0o644)
    assert (read_open(path, 3), read_open(path, 9)) == (b"tex", b"text")
    path.chmod(0o600)
    path.write_bytes(bytes(70_000))
    assert len(read_secret(path)) == 65_536


def test_a_secret_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    left = tmp_path / f".a.{os.getpid()}"
    left.touch()  # in a container each life of a program has the same number
    write_secret(path, "one")
    left.unlink()
    with pytest.raises(FileExistsError) as exists:
        write_secret(path, "two")
    assert (exists.value.errno, exists.value.filename) == (17, str(path))
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    write_secret(path, "three", replaces=True)
    assert (path.read_text(), synced) == ("three", [5])
    with pytest.raises(FileNotFoundError) as missing:
        write_secret(tmp_path / "none" / "b", "x")
    assert missing.value.filename == str(tmp_path / "none" / "b")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_secret(path, "four", replaces=True)
    assert (path.read_text(), os.listdir(tmp_path)) == ("three", ["a"])


def test_a_key_file_is_read_when_it_changes_and_written_when_the_key_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "key"
    first = new_key(os.urandom)
    second = rotated(first, os.urandom, at=time.time())
    write_secret(path, first.to_text())
    file = KeyFile(str(path))
    assert (file.newest, file.look()) == (0, None)
    write_secret(path, second.to_text(), replaces=True)
    assert file.look() == second
    assert (file.newest, file.look()) == (2, None)
    path.unlink()
    assert file.look() is None
    write_secret(path, "nonsense")
    assert (file.look(), file.look()) == (None, None)
    (told,) = [one.getMessage() for one in caplog.records]
    assert told.startswith(f"the key file changed, and is not used: {path} is damaged")
    caplog.clear()
    write_secret(path, first.to_text(), replaces=True)
    assert (file.look(), file.newest) == (None, 2)
    assert [one.getMessage() for one in caplog.records] == [
        "the key file now ends with epoch 1, and this endpoint goes on with epoch 2: copy the present key file back "
        "before a restart"
    ]
    third = rotated(second, os.urandom)
    before = time.time()
    file.keep(third)
    assert (file.newest, read_key(path).newest, file.look()) == (3, third.newest, None)
    assert before - 1 < read_key(path).rotated_at < time.time() + 1
    changed = path.stat().st_mtime_ns
    file.keep(third)  # the file has it
    assert path.stat().st_mtime_ns == changed
    caplog.clear()
    path.unlink()
    file.keep(rotated(third, os.urandom))
    assert file.newest == 4
    (told,) = [one.getMessage() for one in caplog.records]
    assert told.startswith("the key was rotated, but its file is not: copy the new key file before a restart: key=")


def test_an_epoch_is_over_once_the_overlap_has_passed(tmp_path: Path) -> None:
    path = tmp_path / "key"
    now = time.time()
    key = rotated(new_key(os.urandom), os.urandom, overlap=60, at=now - 50)
    for at, modified, epochs in (
        (now - 50, now - 100, 2), (now - 61, now, 1), (0.0, now - 50, 2), (0.0, now - 61, 1),
    ):  # fmt: skip
        write_secret(path, dataclasses.replace(key, rotated_at=at).to_text(), replaces=True)
        os.utime(path, (modified, modified))
        opened = open_secrets(str(path))
        assert [epoch.number for epoch in opened.key.epochs] == [1, 2][-epochs:]
        assert opened.key.newest.number == 2
    assert opened.on_key is not None
    opened.on_key(rotated(key, os.urandom))
    assert read_key(path).newest.number == 3


def test_an_identity_fits_the_key_or_the_words_say_why(tmp_path: Path) -> None:
    plain, grouped = new_key(os.urandom), new_key(os.urandom, public_of(SEED))
    stranger = MemberIdentity("kitchen", bytes(range(32)))
    member = stranger.admitted(SEED, None, [])
    other = stranger.admitted(bytes(32), None, [])
    assert secrets._identity(plain, None) is None
    assert secrets._identity(grouped, member) is member
    asks = "have it admitted with glue key admit, and name it by identity=, GLUE_IDENTITY or --identity"
    assert refused(secrets._identity, grouped, None) == (
        f"identity=None: the members of this key have identities; make one with glue key identity, {asks}"
    )
    assert refused(secrets._identity, grouped, 5) == "identity=5: expected the path of an identity file"
    name = repr(member)
    assert refused(secrets._identity, plain, member) == (
        f"identity={name}: the members of this key have no identities; use glue key authority"
    )
    for wrong in (stranger, other):
        assert refused(secrets._identity, grouped, wrong) == (
            f"identity={wrong!r}: the authority of the key has not admitted it; use glue key admit"
        )
    revoked = dataclasses.replace(grouped, revoked=("kitchen",))
    assert refused(secrets._identity, revoked, member) == (
        f"identity={name}: kitchen is revoked by the key, so all members refuse it; have the authority admit an "
        "identity of another name (glue key identity, glue key admit)"
    )
    path = tmp_path / "kitchen"
    write_secret(path, member.to_text())
    assert secrets._identity(grouped, str(path)) == member
    assert refused(secrets._identity, plain, str(path)).startswith(f"identity={path}: the members")


def test_rules_are_signed_by_the_authority_of_the_key_and_newer_ones_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain, grouped = new_key(os.urandom), new_key(os.urandom, public_of(SEED))
    policy, foreign = Policy.make(SEED, 3, []), Policy.make(bytes(32), 3, [])
    path = str(tmp_path / "rules")
    assert (secrets._policy(plain, None), secrets._policy(grouped, path)) == (None, None)
    assert secrets._policy(plain, policy) is policy
    assert refused(secrets._policy, plain, path) == (
        f"policy='{path}': the members of this key have no identities; use glue key authority"
    )
    secrets._keep_policy(path, foreign)
    assert refused(secrets._policy, grouped, path) == (
        f"policy='{path}': not signed by the authority of the key; sign them with glue key rules"
    )
    secrets._keep_policy(path, policy)
    assert secrets._policy(grouped, path) == policy
    Path(path).write_bytes(Path(path).read_bytes().ljust(POLICY_SIZE + 1))
    refused(secrets._policy, grouped, path)
    secrets._keep_policy(str(tmp_path / "none" / "rules"), policy)
    assert [one.getMessage()[:58] for one in caplog.records] == [
        "newer rules are in force, but their file is not written: ["
    ]


def test_other_things_are_no_keys(tmp_path: Path) -> None:
    assert refused(open_secrets, 5) == "key=5: expected the path of a key file"
    assert refused(read_storage_key, 5) == "storage_key=5: expected the path of a key file"
    gone = tmp_path / "gone"
    assert refused(read_storage_key, str(gone)) == (
        f"storage_key='{gone}': no such file; make one with: glue key new {gone}"
    )
    path, key = tmp_path / "key", new_key(os.urandom)
    write_secret(path, key.to_text())
    assert read_storage_key(str(path)) == read_storage_key(key) == key


def test_a_simulation_has_its_own_entropy_time_and_one_cipher() -> None:
    opened = open_secrets(new_key(os.urandom), entropy=bytes, started_at=7.0)
    assert (opened.suite, opened.entropy(3), opened.unix_time()) == (AES_GCM, bytes(3), 7.0)
    assert (opened.on_key, opened.new_key, opened.identity, opened.policy, opened.on_policy) == (None,) * 5
    real = open_secrets(new_key(os.urandom))
    assert (real.entropy, real.unix_time) == (os.urandom, time.time)


@pytest.mark.parametrize("slow", [AES_GCM, CHACHA])
def test_the_cipher_is_the_one_that_takes_less_time_at_its_best(slow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    encrypted: list[tuple[Any, int, int]] = []

    def cipher(suite: Any, secret: bytes, salt: bytes, info: bytes) -> Any:
        def encrypt(nonce: bytes, data: bytes, associated: bytes) -> bytes:
            encrypted.append((suite, len(nonce), len(data)))
            clock[0] += 2.0 if suite is slow else 1.0
            if suite is not slow and len(encrypted) % 100 < 30:
                clock[0] += 9.0  # another thread ran meanwhile
            return data

        return SimpleNamespace(encrypt=encrypt)

    monkeypatch.setattr(secrets, "cipher", cipher)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    fastest_suite.cache_clear()
    try:
        assert fastest_suite() is (CHACHA if slow is AES_GCM else AES_GCM)
        count = len(encrypted)
        assert (count, {one[1:] for one in encrypted}) == (2 * (1 + 3 * 32), {(12, 1400)})
        fastest_suite()
        assert len(encrypted) == count
    finally:
        fastest_suite.cache_clear()
