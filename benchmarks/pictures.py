"""Draw the pictures of the documentation anew: `python -m benchmarks.pictures [page spy report what-if doctor]`.

Each picture shows the program at work: the page of the HTTP door and the reports in Debian's Chromium, the screen of
`glue spy` by textual, the output of `glue doctor` by rich. They go to docs/images, or to the directory of --output.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import glue
from benchmarks.spark_analyze import make
from glue.cmd.main import COMMANDS
from glue.cmd.watching import Watch
from tests.support.chromium import browser
from tests.support.loopback import loopback_environment

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1200, 900
FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""Fonts in a drawing that would come from elsewhere."""
SECONDS = 30.0
"""Virtual time of the trace whose report is shown."""


def draw_page(images: Path) -> None:
    """Draw the page of the HTTP door: its test in a real browser takes the pictures."""
    environment = {**os.environ, "GLUE_PICTURES": str(images)}
    test = "tests/gateway/http/test_page.py"
    subprocess.run([sys.executable, "-m", "pytest", "-q", test], env=environment, cwd=ROOT, check=True)


def draw_spy(images: Path) -> None:
    """Draw the screen of `glue spy` with a plant that publishes, a message and a plot."""
    from glue.cmd.spy_app import SpyApp

    async def watched(app: SpyApp) -> None:
        async with app.run_test(size=(118, 34)) as pilot:
            await pilot.pause(4.0)
            await pilot.press(*["down"] * 5, "m", "p")
            await pilot.pause(6.0)
            drawn = FONTS.sub("", app.export_screenshot())
            (images / "spy.svg").write_text(re.sub(r"[ \t]+$", "", drawn, flags=re.MULTILINE))

    os.environ.update(loopback_environment())
    ended = threading.Event()
    with glue.Endpoint("kitchen") as kitchen, glue.Endpoint("hall") as hall, glue.Endpoint("spy") as spy:
        hall.subscribe("plant/#", lambda message: None)
        kitchen.wait_for_subscribers("plant/boiler/temperature", 1, timeout=10)
        step = 0

        def publish() -> None:
            nonlocal step
            while not ended.wait(0.1):
                step += 1
                for number, name in enumerate(("boiler", "pump", "tank", "valve")):
                    celsius = round(40 + 10 * number + 5 * math.sin(step / 10 + number), 2)
                    kitchen.publish(f"plant/{name}/temperature", {"celsius": celsius, "n": step})
                hall.publish("home/hall/lamp", "on" if step % 20 < 10 else "off", retain=True)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            asyncio.run(watched(SpyApp(Watch(spy, "#", 0.25))))
        finally:
            ended.set()
            thread.join()


def draw_report(images: Path) -> None:
    """Draw the report of a simulated trace in which the link of one endpoint loses, by day and by night."""
    with tempfile.TemporaryDirectory() as scratch:
        captures, report = Path(scratch, "captures"), Path(scratch, "report")
        make(captures, SECONDS)
        command = [sys.executable, "-m", "spark.analyze", str(captures), "--output", str(report)]
        subprocess.run(command, cwd=ROOT, check=True)
        shoot(report / "report.html", images / "report.png")
        shoot(report / "report.html", images / "report-dark.png", dark=True, scrolled=HEIGHT)


def draw_what_if(images: Path) -> None:
    """Draw the trade-off that a replay with other settings shows."""
    with tempfile.TemporaryDirectory() as scratch:
        captures, page = Path(scratch, "captures"), Path(scratch, "what-if.html")
        make(captures, 6.0)
        command = [sys.executable, "-m", "spark.replay", str(captures), "--output", str(page)]
        command += ["--what-if", "round_trip.MAX_PROBE=0.05,0.25", "--what-if", "parity=0,0.1,0.25"]
        subprocess.run(command, cwd=ROOT, check=True)
        shoot(page, images / "what-if.png")


def draw_doctor(images: Path) -> None:
    """Draw the output of `glue doctor`, where this version has the command."""
    if "doctor" not in COMMANDS:
        print("no picture of glue doctor: this version has no such command", file=sys.stderr)
        return
    from rich.console import Console
    from rich.text import Text

    command = [sys.executable, "-m", "glue.cmd.doctor"]
    os.environ.update(loopback_environment())
    with glue.Endpoint("kitchen") as kitchen, glue.Endpoint("hall") as hall:
        hall.subscribe("home/#", lambda message: None)
        kitchen.wait_for_subscribers("home/lamp", 1, timeout=30)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    console = Console(record=True, width=110, file=StringIO())
    console.print(Text("$ glue doctor", style="bold"))
    console.print(Text.from_ansi(done.stdout))
    (images / "doctor.svg").write_text(FONTS.sub("", console.export_svg(title="glue doctor")))


def shoot(page: Path, picture: Path, *, dark: bool = False, scrolled: int = 0) -> None:
    """Take a picture of a page on disk."""
    with tempfile.TemporaryDirectory() as profile, browser(Path(profile)) as shown:
        shown.show(page.as_uri(), WIDTH, HEIGHT, dark=dark)
        shown.wait("document.readyState == 'complete'")
        shown.value(f"window.scrollTo(0, {scrolled})")
        shown.picture(picture)


DRAWN: dict[str, Callable[[Path], None]] = {
    "page": draw_page,
    "spy": draw_spy,
    "report": draw_report,
    "what-if": draw_what_if,
    "doctor": draw_doctor,
}


def main() -> None:
    """Draw what is named, or everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(DRAWN)}; default: all")
    parser.add_argument("--output", type=Path, default=IMAGES, help="where the pictures go (default: docs/images)")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(DRAWN):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or DRAWN:
        DRAWN[name](arguments.output.resolve())


if __name__ == "__main__":
    main()
