"""Which extras install on ARM without a compiler: each is resolved with wheels alone, by the tags of the platform.

    python -m benchmarks.arm_wheels --python 3.13

pip resolves the requirements of `setup.cfg` for another platform and installs nothing. A 64-bit ARM machine is a
Raspberry Pi 3 or later with a 64-bit system; ARMv7 is a 32-bit system.
"""

from __future__ import annotations

import argparse
import configparser
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLATFORMS = {
    "aarch64": [f"manylinux_2_{minor}_aarch64" for minor in (36, 35, 34, 31, 28, 27, 24, 17)]
    + ["manylinux2014_aarch64"],
    "ARMv7": [f"manylinux_2_{minor}_armv7l" for minor in (36, 35, 34, 31, 28, 27, 24, 17)] + ["manylinux2014_armv7l"],
}
"""Tags of Debian 12 (glibc 2.36)."""

DEVELOPMENT = ("dev", "bench", "docs")


def requirements() -> dict[str, list[str]]:
    """Return the requirements of the core and of each extra for users."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    found = {"(core)": parser["options"]["install_requires"].split()}
    for name, text in parser["options.extras_require"].items():
        if name not in DEVELOPMENT:
            found[name] = text.split()
    return found


def missing(wanted: list[str], platform: str, python: str) -> list[str]:
    """Return the requirements, or their own ones, that have no wheel; empty if all have."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", "--report", "-"]
    command += ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    for tag in PLATFORMS[platform]:
        command += ["--platform", tag]
    lost = []
    with tempfile.TemporaryDirectory() as target:
        for requirement in wanted:
            done = subprocess.run(
                [*command, "--target", target, requirement], capture_output=True, text=True, timeout=300, check=False
            )
            if done.returncode == 0:
                json.loads(done.stdout)
                continue
            if "No matching distribution found for" in done.stderr:
                lost.append(done.stderr.rpartition("No matching distribution found for ")[2].split()[0])
            elif (
                "conflicting dependencies" in done.stderr
            ):  # so pip calls a requirement's own requirement without wheel
                lost.append(f"a requirement of {requirement}")
            else:
                raise RuntimeError(done.stderr)
    return lost


def main() -> None:
    """Print a row for each extra."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="3.13", help="version of Python (default: %(default)s)")
    parser.add_argument("extras", nargs="*", help="these extras only")
    arguments = parser.parse_args()
    print("| extra | " + " | ".join(PLATFORMS) + " |\n|---|" + "---|" * len(PLATFORMS))
    for name, wanted in requirements().items():
        if not arguments.extras or name in arguments.extras:
            cells = []
            for platform in PLATFORMS:
                lost = missing(wanted, platform, arguments.python)
                cells.append(f"no wheel of {', '.join(lost)}" if lost else "yes")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
