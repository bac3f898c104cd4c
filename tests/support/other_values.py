"""Other values of a setting, by its type."""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def other_values(kind: type, name: str, value: Any) -> list[Any]:
    """Return values that the setting `name` of the dataclass `kind` may have instead of `value`."""
    return [other for other in _of_type(get_type_hints(kind)[name], value) if other != value]


def _of_type(hint: Any, value: Any) -> list[Any]:
    origin = get_origin(hint)
    if origin is Literal:
        return list(get_args(hint))
    if origin in {Union, UnionType}:
        return [other for option in get_args(hint) for other in _of_type(option, value)]
    if origin is list:
        return [value[:-1], [*value[:-1], value[-1] + 1]]
    if hint is bool:
        return [not value]
    if hint is type(None):
        return [None]
    return _numbers(hint, value)


def _numbers(hint: type, value: Any) -> list[Any]:
    if not isinstance(value, hint):
        return [3, 1] if hint is int else [0.3, 0.9]
    return [value + 1, 2 * value, 1] if hint is int else [value / 2, value + 0.25, value + 0.5]
