"""`python -m glue`: the same as the command `glue`."""

from __future__ import annotations

import sys

from glue.cmd.main import main

if __name__ == "__main__":
    sys.exit(main())
