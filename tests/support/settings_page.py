"""The tables of docs/settings.md. `python -m tests.support.settings_page` writes them into the page."""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from epigram.core.config_types import Checked, OneOf, Range
from epigram.core.settings import NAMED, SECTIONS
from epigram.runner.workspace.settings import Settings
from epigram.training.config import TrainingConfig

PAGE = Path(__file__).parents[2] / "docs/settings.md"
START = "<!-- generated: python -m tests.support.settings_page -->\n"
HEAD = "| key | value | default | meaning |\n| --- | --- | --- | --- |"
BASES = {bool: "`true`, `false`", int: "integer", float: "number", str: "string", Any: "any value"}
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def comments_of(kind: type[Any]) -> dict[str, str]:
    """Return the comment of each field, which is at the end of its line or on the line above it.

    Fields of the base classes are included.
    """
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        texts |= _own_comments(base) if is_dataclass(base) else {}
    return texts


def _own_comments(kind: type[Any]) -> dict[str, str]:
    source = textwrap.dedent(inspect.getsource(kind))
    found: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            found[token.start[0]] = token.string.lstrip("# ")
    alone = {line for line in found if source.splitlines()[line - 1].lstrip().startswith("#")}
    texts = {}
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above = found.get(node.lineno - 1, "") if node.lineno - 1 in alone else ""
            texts[node.target.id] = found.get(node.end_lineno or node.lineno, above)
    return texts


def value_of(kind: Any) -> str:
    """Return which values a type allows, in words."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _constrained(inside[0], inside[1])
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in inside)
    if origin in (Union, UnionType):
        return ", ".join("`null`" if each is NoneType else value_of(each) for each in inside)
    if origin is list:
        return f"list: {value_of(inside[0])}"
    return BASES.get(kind, "mapping")


def _constrained(kind: Any, rule: object) -> str:
    if isinstance(rule, Range):
        limits = " and ".join(
            f"{sign} {_number(limit)}" for name, sign in BOUNDS.items() if (limit := getattr(rule, name)) is not None
        )
        first, *others = value_of(kind).split(", ")
        return ", ".join([f"{first} {limits}", *others])
    if isinstance(rule, Checked):
        return "name"
    return ", ".join(f"`{name}`" for name in rule.names) if isinstance(rule, OneOf) else value_of(kind)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def default_of(field: Field[Any]) -> str:
    """Return the default of a field as in params.yaml."""
    if field.default_factory is not MISSING:
        value = field.default_factory()
        return "`[]`" if value == [] else "`{}`"
    if field.default is MISSING:
        return "required"
    value = field.default
    if value is None or isinstance(value, bool):
        return f"`{ {None: 'null', True: 'true', False: 'false'}[value] }`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def table(kind: type[Any], path: str) -> Iterator[str]:
    """Yield the parts of a settings class at `path`: heading, summary, table, and those of the classes in it."""
    types, comments = get_type_hints(kind, include_extras=True), comments_of(kind)
    summary = " ".join((kind.__doc__ or "").split())
    rows = [
        f"| `{each.name}` | {value_of(types[each.name])} | {default_of(each)} | {comments[each.name]} |"
        for each in fields(kind)
    ]
    yield f"## `{path}`\n\n{summary}\n\n" + "\n".join([HEAD, *rows])
    for each in fields(kind):
        for inner in classes_in(types[each.name]):
            yield from table(inner, f"{path}.{each.name}")


def classes_in(kind: Any) -> Iterator[type[Any]]:
    """Yield the settings classes that a type consists of."""
    if isinstance(kind, type) and is_dataclass(kind):
        yield kind
    for inside in get_args(kind):
        yield from classes_in(inside)


def tables() -> str:
    """Return the tables of all sections."""
    types = get_type_hints(Settings, include_extras=True)
    parts: list[str] = []
    for section in SECTIONS:
        path = f"{section}.NAME" if section in NAMED else section
        found = [TrainingConfig] if section == "train" else list(classes_in(types[section]))
        parts += [part for kind in found for part in table(kind, path)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(text + START + "\n" + tables(), encoding="utf-8")
