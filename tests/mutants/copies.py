"""Copies of the working tree in a temporary directory: nothing that is tried touches the tree itself."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("glue", "spark")


def files_of(root: Path = ROOT) -> list[str]:
    """Return the files of the tree that git tracks or would track, as they are now."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sorted({name for name in listed.split("\0") if name and (root / name).is_file()})


def sources_of(files: list[str], root: Path = ROOT) -> dict[str, str]:
    """Return the text of each source of the product."""
    names = [name for name in files if name.endswith(".py") and name.split("/")[0] in PACKAGES]
    return {name: (root / name).read_text() for name in names}


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


class Copy:
    """One copy of the tree, in `home`."""

    def __init__(self, home: Path, files: list[str], root: Path = ROOT) -> None:
        self.home = home
        self._writes = 0
        for name in files:
            target = home / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target)
        self._link_environment(root)

    def _link_environment(self, root: Path) -> None:
        """Let tests that look for programs of the environment beside the sources find them."""
        if (root / ".venv").exists():
            (self.home / ".venv").symlink_to((root / ".venv").resolve())

    def write(self, name: str, text: str) -> None:
        """Replace a file. Each version has a second of its own, so that no bytecode of another is taken for it."""
        self._writes += 1
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_000_000_000 + self._writes,) * 2)
        shutil.rmtree(self.home / ".hypothesis", ignore_errors=True)
