"""`glue key`: the files that it writes are private, hold what they say, and never take the place of others."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from glue.cmd import key
from glue.security.identity import MemberIdentity


class Shell:
    """The command in a folder of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def run(self, *words: str) -> tuple[int, str]:
        """The exit code, and what was written."""
        try:
            code = key.main([*words])
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = self._capsys.readouterr()
        return code, said.out + said.err

    def told(self, *words: str) -> dict[str, Any]:
        """What a run that succeeds tells as JSON."""
        code, said = self.run(*words, "--json")
        assert code == 0, said
        return dict(json.loads(said.splitlines()[0]))


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


def test_secrets_are_private_and_no_file_is_replaced(shell: Shell) -> None:
    group, root, member = shell.path("group"), shell.path("authority"), shell.path("kitchen")
    for words, file in (
        (["new", group], group),
        (["authority", root], root),
        (["identity", "kitchen", member], member),
    ):
        shell.told(*words)
        path = Path(file)
        assert path.stat().st_mode & 0o777 == 0o600
        before = path.read_bytes()
        code, said = shell.run(*words)
        assert (code, "exists; it is not replaced" in said) == (1, True) or code == 2, said
        assert path.read_bytes() == before
    code, said = shell.run("show", group)
    assert code == 0
    assert max(Path(group).read_text().split(), key=len).strip('",') not in said


def test_a_member_is_admitted_with_its_rights_for_a_time(shell: Shell) -> None:
    group, root, member = shell.path("group"), shell.path("authority"), shell.path("kitchen")
    shell.told("new", group)
    public = shell.told("authority", root, "--key", group)["public"]
    assert public in Path(group).read_text()
    shell.told("identity", "kitchen", member)
    code, said = shell.run("explain", "kitchen", "publish", "home/lamp", "--identity", member)
    assert (code, "not admitted yet" in said) == (2, True) or code == 1, said
    before = time.time()
    told = shell.told("admit", member, "--authority", root, "--days", "2", "--publish", "home/+", "--subscribe", "#")
    assert 2 * 86_400 <= told["until"] - before < 2 * 86_400 + 600
    certificate = MemberIdentity.from_text(Path(member).read_text(), member).certificate
    assert certificate is not None
    assert (certificate.name, certificate.until) == ("kitchen", told["until"])
    for what, topic, allowed in (
        ("publish", "home/lamp", True), ("publish", "hall/lamp", False), ("subscribe", "hall/lamp", True),
        ("respond", "home/lamp", False),
    ):  # fmt: skip
        code, said = shell.run("explain", "kitchen", what, topic, "--identity", member, "--json")
        assert (code == 0, json.loads(said)["allowed"]) == (allowed, allowed), said
    code, said = shell.run("explain", "hall", "publish", "home/lamp", "--identity", member)
    assert (code != 0, "is the identity of 'kitchen', not of 'hall'" in said) == (True, True)
    assert shell.told("admit", member, "--authority", root)["until"] is None


def test_what_would_do_harm_is_refused_before_a_file_is_written(shell: Shell, tmp_path: Path) -> None:
    group, root, member, rules = map(shell.path, ("group", "authority", "kitchen", "rules"))
    pipe, capture = shell.path("pipe"), shell.path("trace.pcapng")
    os.mkfifo(pipe)
    shell.told("new", group)
    shell.told("authority", root, "--key", group)
    shell.told("identity", "kitchen", member)
    Path(rules).write_text('[{"who": "#", "may": ["publish"], "topics": ["a/#/b"]}]')
    Path(capture).write_bytes(b"frames")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for words, reason in (
        (["identity", ""], "expected 1 to 255 printable bytes"),
        (["new", shell.path("missing/plant.key")], "missing/plant.key: No such file or directory"),
        (["admit", member, "--authority", root, "--publish", "a/#/b"], "pattern 'a/#/b'"),
        (["rules", rules, "--authority", root, "--output", shell.path("signed")], "pattern 'a/#/b'"),
        (["rules", pipe, "--authority", root, "--output", shell.path("signed")], "pipe: not a file"),
        (["explain", "kitchen", "publish", "a", "--rules", pipe], "pipe: not a file"),
        (["open", capture, "--key", group, "--output", capture], "this is the capture itself"),
        (["rotate", group, "--authority", root], "glue key identity"),  # without an identity nobody would be told
    ):
        code, said = shell.run(*words)
        assert (code != 0, reason in said) == (True, True), said
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_rules_are_signed_as_the_next_version(shell: Shell) -> None:
    root, output, source = shell.path("authority"), shell.path("plant.rules"), Path(shell.path("rules"))
    shell.told("authority", root)
    rules = [
        {"who": "kitchen", "may": ["publish"], "topics": ["home/#"]},
        {"who": "#", "may": ["subscribe"], "topics": ["#"]},
    ]
    source.write_text(json.dumps(rules))
    versions = [shell.told("rules", str(source), "--authority", root, "--output", output) for _ in range(3)]
    assert [(told["version"], told["rules"]) for told in versions] == [(1, 2), (2, 2), (3, 2)]
    for name, code in (("kitchen", 0), ("hall", 1)):
        assert shell.run("explain", name, "publish", "home/lamp", "--rules", output)[0] == code
    other = shell.path("other")
    shell.told("authority", other)
    code, said = shell.run("rules", str(source), "--authority", other, "--output", output)
    assert (code != 0, "no rules of this authority" in said) == (True, True)
    source.write_text("{")
    assert shell.run("rules", str(source), "--authority", root, "--output", output)[0] != 0
