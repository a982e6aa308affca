"""Which Java Spark gets: the machine's own if it is new enough, else that of PyPI, and how it is started."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark import java as module
from spark.java import NoJavaError, ensure_java, own_java, version_of, wrapped_home


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is found here is not remembered."""
    monkeypatch.setenv("JAVA_HOME", "/set/by/the/user")
    ensure_java.cache_clear()
    yield
    ensure_java.cache_clear()


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("command not understood", 0),
    ],
)
def test_a_java_tells_its_version(tmp_path: Path, said: str, version: int) -> None:
    assert version_of(program(tmp_path / "java", f"echo '{said}' >&2; exit 1")) == version


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert version_of(str(tmp_path / "missing")) == 0
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    assert version_of(program(tmp_path / "java", "exec sleep 60")) == 0


def test_the_own_java_is_that_of_java_home_and_else_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_java() == "/set/by/the/user/bin/java"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "")
    assert own_java() is None
    assert program(tmp_path / "java", "") == own_java()


@pytest.mark.parametrize(
    ("own", "version", "is_on_pypi", "found"),
    [
        ("/own/java", 17, True, "/own/java"),
        ("/own/java", 17, False, "/own/java"),
        ("/own/java", 16, True, "/pypi/java"),
        ("/own/java", 0, True, "/pypi/java"),
        (None, 17, True, "/pypi/java"),
        ("/own/java", 16, False, "newer; /own/java is version 16. Install"),
        ("/own/java", 0, False, "newer; /own/java fails. Install"),
        (None, 17, False, "Spark needs Java 17 or newer; none was found. Install"),
    ],
)
def test_a_java_is_found_or_asked_for(
    own: str | None, version: int, is_on_pypi: bool, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "own_java", lambda: own)
    monkeypatch.setattr(module, "version_of", lambda java: version)
    monkeypatch.setattr(module, "find_spec", lambda name: True if is_on_pypi else None)
    monkeypatch.setattr(module, "import_module", lambda name: SimpleNamespace(JAVA=Path("/pypi/java")))
    monkeypatch.setattr(module, "wrapped_home", lambda java: f"home of {java}")
    if found.startswith("/"):
        assert ensure_java() == found
        assert os.environ["JAVA_HOME"] == f"home of {found}"
    else:
        with pytest.raises(NoJavaError, match=found):
            ensure_java()
        assert os.environ["JAVA_HOME"] == "/set/by/the/user"


def test_java_gets_all_arguments_but_those_that_not_every_one_knows(tmp_path: Path) -> None:
    home = Path(wrapped_home(program(tmp_path / "the java", 'printf "[%s]" "$@"')))
    unknown = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    words = [unknown[0], "-Dx=a b", "--add-opens=java.base/java.nio=ALL-UNNAMED", unknown[1], "*", ""]
    done = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert done.stdout == "[-Dx=a b][--add-opens=java.base/java.nio=ALL-UNNAMED][*][]"
    assert (home / "bin" / "java").stat().st_mode & 0o777 == 0o755


def test_the_wrapper_of_java_is_removed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[Callable[[], object]] = []
    monkeypatch.setattr("atexit.register", lambda end, *given, **more: ends.append(partial(end, *given, **more)))
    home = Path(wrapped_home("/own/java"))
    assert (home / "bin" / "java").is_file()
    for end in ends:
        end()
    assert not home.exists()
