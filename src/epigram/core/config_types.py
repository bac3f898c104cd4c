"""Validation of external input: JSON and YAML texts, and typed settings whose errors name the key.

Settings are plain dataclasses, so that the training code also runs where pydantic is not installed; only `typed`
requires pydantic.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from epigram.core import yaml_nodes
from epigram.core.errors import ParameterError

T = TypeVar("T")

SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a surrogate pair, which JSON can express and UTF-8 cannot
MAX_NAMES, MAX_NAME_LENGTH = 60, 80  # maximum number of names in a message, and of characters per name
UNION_BRANCH = re.compile(
    r"float|int|bool|\[key\]|list\[.*|(literal|constrained|lax-or-strict).*"
)  # pydantic's names of branches of a union, and of the key of a mapping
NAME_PATTERN = re.compile(r"\w[\w.-]{0,99}")  # safe in a path and a shell command without quoting
NAME_BYTES = 200  # maximum in UTF-8; leaves room for suffixes in a file name, which is limited to 255 bytes
NAME_RULE = f"letters, digits, _, - and ., at most 100 characters ({NAME_BYTES} bytes)"
MISSING_KEY_TYPES = {"missing", "missing_argument"}  # pydantic's types; reported last, since misspelled keys cause them
BOUND = re.compile(r"(greater|less) than")
INPUT_SHOULD_BE = "Input should be "  # start of most messages of pydantic


@dataclass(frozen=True)
class Range:
    """Bounds of a number, for annotations: `Annotated[int, Range(ge=1)]`."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Add the bounds to pydantic's schema."""
        schema = dict(handler(source))
        inner = schema["schema"] if schema["type"] == "nullable" else schema
        inner.update({key: value for key, value in vars(self).items() if value is not None})
        return schema


class Checked:
    """Test of a value, for annotations: `Annotated[str, Checked(test, rule)]`; `rule` completes "expected …"."""

    def __init__(self, test: Callable[[Any], object], rule: str) -> None:
        self.test, self.rule = test, rule

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Add the test to pydantic's schema."""
        from pydantic_core import PydanticCustomError, core_schema

        def check(value: Any) -> Any:
            if not self.test(value):
                raise PydanticCustomError("not_allowed", self.rule)
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))


class Unset:
    """Key that a mapping lacks if its value is null: `Annotated[dict[str, Any], Unset("epochs")]`."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Let pydantic drop the key after its checks."""
        from pydantic_core import core_schema

        def drop(values: dict[str, Any]) -> dict[str, Any]:
            return {key: value for key, value in values.items() if key != self.key or value is not None}

        return core_schema.no_info_after_validator_function(drop, handler(source))


class OneOf:
    """Constraint that a string is one of the names of a collection: `Annotated[str, OneOf(registry)]`."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = names

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Add the test to pydantic's schema; the names are read at each test, since a registry may grow."""
        from pydantic_core import PydanticCustomError, core_schema

        def check(value: str) -> str:
            *names, last = map(repr, self.names)
            if repr(value) not in {*names, last}:
                raise PydanticCustomError("not_allowed", f"{', '.join(names)} or {last}")
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))


class MappingAs:
    """Choice by form: `Annotated[Literal["a"] | Kind, MappingAs()]` reads a mapping as a `Kind`, all else as a name.

    A plain union would report the errors of both.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return pydantic's schema; its tags are named so that `UNION_BRANCH` removes them from the key."""
        from pydantic_core import core_schema

        name, mapping = map(handler.generate_schema, get_args(source))
        return core_schema.tagged_union_schema(
            {"literal": name, "literal mapping": mapping},
            discriminator=lambda value: "literal mapping" if isinstance(value, Mapping) else "literal",
        )


def is_inner_path(path: str) -> bool:
    """Return whether `path` is relative and stays inside its folder."""
    inner = PurePosixPath(path)
    return bool(inner.parts) and not inner.is_absolute() and ".." not in inner.parts and "\0" not in path


def is_name(text: str) -> bool:
    """Return whether `text` can be used in a path and a shell command without quoting."""
    return bool(NAME_PATTERN.fullmatch(text)) and len(text.encode()) <= NAME_BYTES


Name = Annotated[str, Checked(is_name, NAME_RULE)]  # name of a data set, view or system; never a path
InnerPath = Annotated[str, Checked(is_inner_path, "a path below the repository root")]
Positive = Annotated[int, Range(ge=1)]
Count = Annotated[int, Range(ge=0)]
Share = Annotated[float, Range(ge=0.0, le=1.0)]
Seed = Annotated[int, Range(ge=0, le=2**32 - 1)]  # the range that every random generator accepts
Folds = Literal[0, 2, 3, 4, 5, 6, 7, 8, 9, 10]  # folds of a cross-validation; 0: none
OpenShare = Annotated[float, Range(gt=0.0, lt=1.0)]


class Strict:
    """Base class of all settings sections; unknown keys are errors."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": False, "allow_inf_nan": False}


def nearest(name: str, allowed: list[str], kind: str = "allowed") -> str:
    """Return `did you mean 'x'?` if an allowed name is similar to `name`, else the list of allowed names."""
    close = difflib.get_close_matches(name, allowed, n=1)
    if close:
        return f"did you mean '{shown(close[0])}'?"
    more = ", …" if len(allowed) > MAX_NAMES else ""
    return f"{kind}: {', '.join(map(shown, sorted(allowed)[:MAX_NAMES]))}{more}"


def shown(name: str) -> str:
    """Return a name from outside for use in a message: printable, on one line, truncated to MAX_NAME_LENGTH."""
    short = name if len(name) <= MAX_NAME_LENGTH else f"{name[:MAX_NAME_LENGTH]}…"
    return short if short.isprintable() else repr(short)[1:-1]


def check_name(where: str, name: object) -> None:
    """Raise ParameterError, starting with `where`, if `name` is not a valid name for paths and shell commands."""
    if not isinstance(name, str) or not is_name(name):
        raise ParameterError(f"{where} is {shown(repr(name))}; expected {NAME_RULE}")


def validate_as(kind: type[T], values: Any, path: str = "", *, file: str = "params.yaml") -> T:
    """Validate `values` as an instance of the dataclass (or type) `kind`; `path` is their location in `file`.

    Raises ParameterError with one line per error: the key, its value, and what is expected.
    """
    from pydantic import ValidationError

    try:
        return cast(T, _type_adapter(cast(Any, kind)).validate_python(values))
    except ValidationError as error:
        details = sorted(error.errors(include_url=False), key=lambda detail: detail["type"] in MISSING_KEY_TYPES)
        lines = [f"{file}: {_error_line(kind, dict(detail), path)}" for detail in details]
        raise ParameterError("\n".join(lines)) from None


@cache
def _type_adapter(kind: Any) -> Any:
    """Return the cached validator of a type, which takes 10 ms to build."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _error_line(kind: type[Any], detail: dict[str, Any], path: str) -> str:
    """Return one line for an error of pydantic."""
    parts = [str(part) for part in detail["loc"] if not UNION_BRANCH.fullmatch(str(part))]
    key = ".".join(map(shown, [path, *parts] if path else parts))
    if detail["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
        return f"{key} is not a setting: {nearest(parts[-1], _field_names(kind, parts[:-1]))}"
    if detail["type"] in MISSING_KEY_TYPES:
        return f"{key} is missing"
    value = repr(detail["input"])
    value = "a value with a URL (not shown)" if "://" in value else shown(value)  # a URL may contain a password
    return f"{key} is {value}{_expectation(detail)}".lstrip()


def _expectation(detail: dict[str, Any]) -> str:
    """Return what an error of pydantic says about the expected value, starting with a separator."""
    message: str = detail["msg"]
    if detail["type"] == "not_allowed":
        return f"; expected {message}"
    if detail["type"] in {"dataclass_type", "dict_type"}:
        return "; expected a mapping from keys to values"
    if not message.startswith(INPUT_SHOULD_BE):
        return f": {message[0].lower()}{message[1:]}"
    expected = message.removeprefix(INPUT_SHOULD_BE).partition(", unable")[0].partition(", got")[0]
    expected = expected.replace("a valid integer", "an integer").replace("a valid ", "a ")
    return f"; expected {'a number ' if BOUND.match(expected) else ''}{expected}"


def _field_names(kind: Any, parts: list[str]) -> list[str]:
    """Return the field names of the dataclass at the path `parts` below `kind`."""
    for part in parts:
        kind = get_type_hints(kind).get(part) if is_dataclass(kind) else get_args(kind)[-1]
    kind = next((option for option in get_args(kind) if is_dataclass(option)), kind)  # an optional section
    return list(getattr(kind, "__dataclass_fields__", {}))


def parse_integer(name: str) -> int | None:
    """Return the integer that a name such as a label spells; None for other names and for more than 1,000 digits."""
    return int(name) if name.isdecimal() and len(name) <= 1_000 else None  # Python's own limit is 4,300 digits


def is_http_url(text: str) -> bool:
    """Return whether `text` is an http or https URL with a host and, if it has a port, a valid one."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # invalid brackets or port
        return False


def parse_json(text: str, as_object: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return the value of a JSON text. Raises ValueError, also for too deep nesting and for unpaired surrogates.

    `as_object` makes an object of its keys and values, which may be repeated.
    """
    try:
        value = json.loads(text, object_pairs_hook=as_object)
    except RecursionError:
        raise ValueError("the nesting is too deep") from None
    if SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def has_type(value: Any, hint: Any) -> bool:
    """Return whether a value read from JSON has the type `hint`: str, int, float, list, dict, None or a union of them.

    It checks records in code that runs without pydantic.
    """
    kind, inner = get_origin(hint), get_args(hint)
    if kind in {Union, UnionType}:
        return any(has_type(value, option) for option in inner)
    if kind is list:
        return isinstance(value, list) and all(has_type(item, inner[0]) for item in value)
    if kind is dict:
        return isinstance(value, dict) and all(has_type(item, inner[1]) for item in value.values())
    if hint is float:
        return type(value) in {int, float}
    return hint is Any or type(value) is hint


def find_fault(content: Any, hints: Mapping[str, Any], name: str) -> str:
    """Return what is wrong if `content`, the record `name` in JSON, does not have exactly the fields `hints`."""
    if not isinstance(content, dict) or content.keys() != hints.keys():
        return f"{name} must have the keys {', '.join(hints)}"
    wrong = [field for field, hint in hints.items() if not has_type(content[field], hint)]
    return f"{name}.{wrong[0]} does not have the type {hints[wrong[0]]}" if wrong else ""


def read_yaml(path: Path) -> Any:
    """Read a YAML file of settings.

    Raises FileNotFoundError, and ParameterError for invalid YAML or too many values.
    """
    try:
        return parse_yaml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ParameterError(f"{path} is not UTF-8 at byte {error.start}: save it as UTF-8") from None
    except ValueError as error:
        raise ParameterError(f"{path} is not valid YAML: {error}") from None


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text (plain values only). Raises ValueError with a message of one printable line."""
    import yaml

    try:
        value = yaml_nodes.parse(text)
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]  # PyYAML raises these for invalid dates, numbers and keys
        raise ValueError(reason if reason.isprintable() else repr(reason)[1:-1]) from None
    except RecursionError:
        raise ValueError("the nesting is too deep") from None
    _check_encodable(value)
    return value


def _check_encodable(value: Any) -> None:
    """Raise ValueError if a string has an unpaired surrogate or a NUL character."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += [*item, *item.values()]
        elif isinstance(item, (list, set, tuple)):
            stack += item
        elif isinstance(item, str):
            item.encode()
            if "\0" in item:
                raise ValueError(f"{shown(item)!r} contains a NUL character")
