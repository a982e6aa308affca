"""A page in a real browser without a screen: Debian's Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60.0

needs_browser = pytest.mark.skipif(
    PROGRAM is None and os.environ.get("CI") != "true", reason="needs the browser `chromium`"
)


def run(page: Path, *options: str) -> str:
    """Open a page from disk, with no network; returns what the browser prints."""
    assert PROGRAM is not None, "chromium is not installed"
    profile = page.parent / "profile"
    command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={profile}", "--host-resolver-rules=MAP * ~NOTFOUND", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    shutil.rmtree(profile, ignore_errors=True)
    return done.stdout


def document(page: Path) -> str:
    """The page as it stands after its script ran."""
    return run(page, "--dump-dom")


def screenshot(page: Path, to: Path, *, dark: bool = False, size: tuple[int, int] = (1000, 2400)) -> bytes:
    """What the page looks like, as PNG."""
    options = [f"--screenshot={to}", f"--window-size={size[0]},{size[1]}", "--hide-scrollbars"]
    run(page, *options, *(["--blink-settings=preferredColorScheme=0"] if dark else []))
    return to.read_bytes()
