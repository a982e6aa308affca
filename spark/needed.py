"""Check of the libraries that the commands of this package need beside glue.

Commands import this module first. If a library is missing, the import ends the program and tells what to install. `pip
install glue-lan` installs none of these libraries, and the extra `spark` installs all.
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
    """Return whether a library can be imported."""
    try:
        return find_spec(library) is not None
    except (ImportError, ValueError):
        return False


def missing(present: Callable[[str], bool] = is_there) -> list[str]:
    """Return the missing libraries."""
    return [library for library in LIBRARIES if not present(library)]


def requirement(distributions: Sequence[str] = ()) -> str:
    """Return the argument for pip: the installed distribution with its extra, else this source tree with its extra."""
    return f"{distributions[0]}[{EXTRA}]" if distributions else f"{ROOT}[{EXTRA}]"


def advice(libraries: Sequence[str], distributions: Sequence[str]) -> str:
    """Return one line that tells how to install the missing libraries."""
    return f"needs {', '.join(libraries)}, which are not installed: pip install '{requirement(distributions)}'"


def _command() -> str:
    """Return the name of the running module, as the user called it."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return (spec.name if spec else "spark").removesuffix(".__main__")


if lacking := missing():
    print(f"{_command()}: {advice(lacking, packages_distributions().get('spark', ()))}", file=sys.stderr)
    raise SystemExit(2)
