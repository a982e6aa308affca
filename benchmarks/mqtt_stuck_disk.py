"""A door whose disk gets stuck: a sync waits while there is a file `stuck-NAME` in the directory `STUCK_DISK`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from glue.cmd import mqtt
from glue.model.disk import Disk

PAUSE = 0.01
"""Seconds between two looks at the file."""


def main() -> int:
    """Run `glue mqtt` with such a disk."""
    name = sys.argv[sys.argv.index("--endpoint-name") + 1]
    stuck = Path(os.environ["STUCK_DISK"]) / f"stuck-{name}"
    flush = Disk.flush

    def waiting(disk: Disk) -> int:
        while stuck.exists():
            time.sleep(PAUSE)
        return flush(disk)

    Disk.flush = waiting  # type: ignore[assignment, method-assign]
    return mqtt.main()


if __name__ == "__main__":
    sys.exit(main())
