"""Values with named fields, without the cost of `dataclasses` at import.

`dataclass` and `NamedTuple` write source code for each class, and compile it when the module is imported: 0.1 to 2 ms a
class, which each program pays before its first message. A `Frozen` class is declared as a frozen dataclass, and behaves
as one: default values, equality, hash, `repr`, `match` patterns. All classes have the same methods, so that one costs
10 µs. To make an instance takes 1 µs longer; a class with an instance for each message is written out instead.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(frozen_default=True)
class Frozen:
    """The base class of immutable values; their fields are the annotations in the class body."""

    _names: ClassVar[tuple[str, ...]] = ()
    """The names of the fields, in the order of the constructor's arguments."""

    def __init_subclass__(cls) -> None:
        cls._names += tuple(cls.__annotations__)
        type.__setattr__(cls, "__match_args__", cls._names)

    def __init__(self, *values: Any, **named: Any) -> None:
        names, fields = self._names, self.__dict__
        fields.update(zip(names, values, strict=False))
        if len(values) > len(names) or not fields.keys().isdisjoint(named):
            raise TypeError(f"{type(self).__name__}: too many values for the fields {', '.join(names)}")
        fields.update(named)
        if named or len(values) < len(names):
            self._check_names()
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the values; raises what is to be raised for wrong ones."""

    def _check_names(self) -> None:
        """Raise TypeError for an unknown name, or a field without a value. Default values stay in the class."""
        kind, names, fields = type(self), self._names, self.__dict__
        missing = [name for name in names if name not in fields and not hasattr(kind, name)]
        unknown = [name for name in fields if name not in names]
        if missing or unknown:
            causes = [f"{name!r} is missing" for name in missing] + [f"there is no field {name!r}" for name in unknown]
            raise TypeError(f"{kind.__name__}: {'; '.join(causes)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name!r} cannot be deleted")

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self._names])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"{type(self).__name__}({fields})"

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with other values in some fields."""
        return type(self)(**{**self.__dict__, **changes})
