"""Debian's Chromium without a window, driven by the DevTools protocol: evaluates expressions in a page."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.lan import PATIENCE

OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
    "--disable-dev-shm-usage", "--disable-background-networking", "--remote-debugging-port=0", "--mute-audio",
)  # fmt: skip


class Page:
    """A page of a browser."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = count(1)

    def command(self, method: str, **parameters: Any) -> Any:
        """Send a command of the protocol, and return its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(PATIENCE))
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, awaited."""
        found = self.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true, on a page that may still load; returns its value."""
        ends = time.monotonic() + PATIENCE
        safely = f"(() => {{ try {{ return {expression} }} catch {{ return false }} }})()"
        while not (found := self.value(safely)):
            assert time.monotonic() < ends, (expression, self.value("document.body.innerText"))
            time.sleep(0.05)
        return found

    def show(self, url: str, width: int, height: int, *, dark: bool = False) -> None:
        """Go to a page, in a window of a size, in light or dark colours."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.command("Page.navigate", url=url)

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        text = key if len(key) == 1 else ""
        self.command("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: Path) -> None:
        """Write what the window shows as a PNG file."""
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A browser with one page; its profile is in a folder."""
    from websockets.sync.client import connect

    program = shutil.which("chromium")
    assert program is not None
    process = subprocess.Popen(
        [program, *OPTIONS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        told, ends = folder / "DevToolsActivePort", time.monotonic() + PATIENCE
        while not told.exists() or not told.read_text().strip():
            assert time.monotonic() < ends
            time.sleep(0.02)
        port = told.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE) as answer:
            url = next(page["webSocketDebuggerUrl"] for page in json.load(answer) if page["type"] == "page")
        with connect(url, max_size=1 << 26) as socket:
            page = Page(socket)
            yield page
            page.command("Browser.close")
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
