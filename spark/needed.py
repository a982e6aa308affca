"""What a command of this package needs beside glue. Imported first, it ends the program with what to install.

`pip install glue-lan` brings none of it; the extra `spark` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

EXTRA = "spark"
LIBRARIES = ("numpy", "pandas", "py4j", "pyarrow", "pyspark")
ROOT = Path(__file__).parents[1]


def is_there(library: str) -> bool:
    """Whether a library can be imported."""
    try:
        return find_spec(library) is not None
    except (ImportError, ValueError):
        return False


def missing(present: Callable[[str], bool] = is_there) -> list[str]:
    """The libraries that are not there."""
    return [library for library in LIBRARIES if not present(library)]


def requirement(distributions: Sequence[str] = ()) -> str:
    """What pip is to be asked for: the installed distribution with its extra, else the sources that this runs from."""
    return f"{distributions[0]}[{EXTRA}]" if distributions else f"{ROOT}[{EXTRA}]"


def advice(libraries: Sequence[str], distributions: Sequence[str]) -> str:
    """What to do about missing libraries, in one line."""
    return f"needs {', '.join(libraries)}, which are not installed: pip install '{requirement(distributions)}'"


def _command() -> str:
    """The module that is being run, as it was called."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return (spec.name if spec else "spark").removesuffix(".__main__")


if lacking := missing():
    print(f"{_command()}: {advice(lacking, packages_distributions().get('spark', ()))}", file=sys.stderr)
    raise SystemExit(2)
