"""Settings to vary, by name: an endpoint's settings, and constants of the modules of the transport layer.

    lease_intervals=2,3,5            a setting of docs/settings.md
    round_trip.MAX_PROBE=0.05,0.25   a constant of a module in glue/transport: timers, windows, patience

A module looks up a constant at each use. Therefore a constant is replaced in all modules during a simulation.
"""

from __future__ import annotations

import json
import math
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import product
from types import ModuleType
from typing import Any

import glue.transport
from glue.errors import ConfigurationError
from glue.settings import PREFIX, SETTINGS, effective, variable

VARIED = SETTINGS.keys() - {"name"}


def modules() -> dict[str, ModuleType]:
    """Return the modules of the transport layer, by their names within the layer."""
    prefix = "glue.transport."
    names = [module.name for module in pkgutil.walk_packages(glue.transport.__path__, prefix)]
    return {name.removeprefix(prefix): import_module(name) for name in names}


def combinations(words: Sequence[str], settings_only: bool = False) -> list[dict[str, str]]:
    """Return all combinations of arguments such as "name=value,value,…". Raises ValueError for other arguments."""
    choices = []
    for word in words:
        name, _, values = word.partition("=")
        if not values or not (name in VARIED or (not settings_only and _is_transport(name))):
            raise ValueError(f"{word!r}: expected a setting and its values, such as lease_intervals=2,3,5")
        choices.append([(name, value) for value in values.split(",")])
    sets = [dict(combination) for combination in product(*choices)]
    for one in sets:
        checked(one)
    return sets


def _is_transport(name: str) -> bool:
    module, _, constant = name.rpartition(".")
    return constant.isupper() and isinstance(getattr(modules().get(module), constant, None), int | float)


def checked(changed: Mapping[str, str]) -> dict[str, Any]:
    """Return the endpoint's settings among the changes, as values.

    Raises ConfigurationError and ValueError for wrong values.
    """
    own = {variable(name): value for name, value in changed.items() if name in VARIED}
    try:
        settings = effective({}, own)
    except ConfigurationError as error:  # the error names a variable, which is not set here
        name, _, rest = str(error).removeprefix(PREFIX).partition("=")
        raise ConfigurationError(f"{name.lower()}={rest}") from None
    for name, value in changed.items():
        if name not in VARIED:
            _number(name, value)
    return {name: getattr(settings, name) for name in changed if name in VARIED}


def _number(name: str, value: str) -> int | float:
    try:
        number = json.loads(value)
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ValueError(f"{name}={value}: expected a number")
    return number


@contextmanager
def constants(changed: Mapping[str, str]) -> Iterator[None]:
    """Replace changed constants in all modules of transport within the `with` block."""
    before: list[tuple[ModuleType, str, Any]] = []
    try:
        for name, value in changed.items():
            home, _, constant = name.rpartition(".")
            if home:
                original = getattr(modules()[home], constant)
                for module in modules().values():
                    if getattr(module, constant, None) is original:
                        before.append((module, constant, original))
                        setattr(module, constant, _number(name, value))
        yield
    finally:
        for module, constant, original in before:
            setattr(module, constant, original)
