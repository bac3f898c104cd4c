"""Values from outside: of JSON and YAML texts, and as typed settings whose faults are told by their keys.

Settings are plain dataclasses, so that the parts of pithy that train can be used where pydantic is not installed; only
`typed` needs it.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, cast, get_args, get_origin

from pithy import yaml_nodes
from pithy.errors import ParameterError

T = TypeVar("T")

SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half a character, which JSON can say and UTF-8 cannot
NAMED, WIDTH = 60, 80  # names that a message lists, and characters of each
BRANCH = re.compile(r"float|int|(literal|constrained|lax-or-strict).*")  # what pydantic calls a branch of a union
NAME = re.compile(r"\w[\w.-]{0,99}")  # what a path and a shell's command line can hold as it is
NAME_BYTES = 200  # in UTF-8: with what is added to it a name is that of a file, which has 255 at most
NAME_RULE = f"letters, digits, _, - and . are allowed, 100 characters at most ({NAME_BYTES} bytes)"
MISSING = {"missing", "missing_argument"}  # pydantic's types of a fault; named last, as a slip often causes it


@dataclass(frozen=True)
class Range:
    """Bounds of a number in an annotation: `Annotated[int, Range(ge=1)]`."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Hand the bounds to pydantic."""
        schema = dict(handler(source))
        inner = schema["schema"] if schema["type"] == "nullable" else schema
        inner.update({key: value for key, value in vars(self).items() if value is not None})
        return schema


class Checked:
    """A test of a string in an annotation: `Annotated[str, Checked(test, rule)]`; `rule` says what is allowed."""

    def __init__(self, test: Callable[[str], object], rule: str) -> None:
        self.test, self.rule = test, rule

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Hand the test to pydantic."""
        from pydantic_core import PydanticCustomError, core_schema

        def check(value: str) -> str:
            if not self.test(value):
                raise PydanticCustomError("not_allowed", self.rule)
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))


def is_inner_path(path: str) -> bool:
    """Return whether a relative path stays in its folder."""
    inner = PurePosixPath(path)
    return bool(inner.parts) and not inner.is_absolute() and ".." not in inner.parts and "\0" not in path


def is_name(text: str) -> bool:
    """Return whether `text` can be a part of a path and of a command line as it is."""
    return bool(NAME.fullmatch(text)) and len(text.encode()) <= NAME_BYTES


Name = Annotated[str, Checked(is_name, NAME_RULE)]  # of a data set, a view, a system: never a path
InnerPath = Annotated[str, Checked(is_inner_path, "a path below the repository is needed")]
Positive = Annotated[int, Range(ge=1)]
Count = Annotated[int, Range(ge=0)]
Share = Annotated[float, Range(ge=0.0, le=1.0)]
Seed = Annotated[int, Range(ge=0, le=2**32 - 1)]  # what every random generator takes
OpenShare = Annotated[float, Range(gt=0.0, lt=1.0)]


class Strict:
    """Base of every section: an unknown key is an error."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": False, "allow_inf_nan": False}


def nearest(name: str, allowed: list[str]) -> str:
    """`did you mean 'x'?` for a likely slip, the allowed names otherwise."""
    close = difflib.get_close_matches(name, allowed, n=1)
    if close:
        return f"did you mean '{shown(close[0])}'?"
    more = ", …" if len(allowed) > NAMED else ""
    return f"allowed: {', '.join(map(shown, sorted(allowed)[:NAMED]))}{more}"


def shown(name: str) -> str:
    """A name from outside as a message can hold it: in one line, not too long."""
    short = name if len(name) <= WIDTH else f"{name[:WIDTH]}…"
    return short if short.isprintable() else repr(short)[1:-1]


def check_name(where: str, name: object) -> None:
    """Refuse what is not a name. Names become parts of paths and command lines.

    Raises ParameterError, which starts with `where`.
    """
    if not isinstance(name, str) or not is_name(name):
        raise ParameterError(f"{where} was {shown(repr(name))}: {NAME_RULE}")


def typed(kind: type[T], values: Any, path: str = "", *, file: str = "params.yaml") -> T:
    """Check `values` against the dataclass (or type) `kind`; `path` is where they stand in `file`.

    Raises ParameterError: the key, what it was, what is allowed; one line a fault.
    """
    from pydantic import ValidationError

    try:
        return cast(T, _adapter(cast(Any, kind)).validate_python(values))
    except ValidationError as error:
        faults = sorted(error.errors(include_url=False), key=lambda fault: fault["type"] in MISSING)
        raise ParameterError("\n".join(f"{file}: {_fault(kind, dict(fault), path)}" for fault in faults)) from None


@cache
def _adapter(kind: Any) -> Any:
    """What checks values of a type: it takes 10 ms to build."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _fault(kind: type[Any], fault: dict[str, Any], path: str) -> str:
    parts = [str(part) for part in fault["loc"] if not BRANCH.fullmatch(str(part))]
    where = ".".join(map(shown, [path, *parts] if path else parts))
    if fault["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
        return f"{where} is not a setting: {nearest(parts[-1], _names_at(kind, parts[:-1]))}"
    if fault["type"] in MISSING:
        return f"{where} is missing"
    was = repr(fault["input"])
    told = "a value with an address, which is not shown" if "://" in was else shown(was)  # it may hold a password
    return f"{where} was {told}: {fault['msg'][0].lower()}{fault['msg'][1:]}".lstrip()


def _names_at(kind: Any, parts: list[str]) -> list[str]:
    """Field names of the dataclass found by walking `parts` down from `kind`."""
    from typing import get_args, get_type_hints

    for part in parts:
        kind = get_type_hints(kind).get(part) if is_dataclass(kind) else get_args(kind)[-1]
    kind = next((each for each in get_args(kind) if is_dataclass(each)), kind)  # a section that may be absent
    return list(getattr(kind, "__dataclass_fields__", {}))


def number_of(name: str) -> int | None:
    """The whole number that a name such as a label is, None for any other and for one of more than 1,000 digits."""
    return int(name) if name.isdecimal() and len(name) <= 1_000 else None  # Python itself reads 4,300 digits


def is_web_address(text: str) -> bool:
    """Whether `text` is an http or https address with a host and, where it names a port, a port that there is."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # of brackets and ports
        return False


def parsed_json(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, also for one nested too deep and for half a character."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def fits(value: Any, hint: Any) -> bool:
    """Whether a value that was read from JSON is what `hint` says: of str, int, float, lists, dicts, unions of them.

    It does for records that are read where pydantic may be missing.
    """
    kind, inner = get_origin(hint), get_args(hint)
    if kind in {Union, UnionType}:
        return any(fits(value, each) for each in inner)
    if kind is list:
        return isinstance(value, list) and all(fits(each, inner[0]) for each in value)
    if kind is dict:
        return isinstance(value, dict) and all(fits(each, inner[1]) for each in value.values())
    if hint is float:
        return type(value) in {int, float}
    return hint is Any or type(value) is hint


def read_yaml(path: Path) -> Any:
    """Read a YAML file of settings.

    Raises FileNotFoundError, or ParameterError for what is no YAML or holds too much.
    """
    try:
        return parsed_yaml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ParameterError(f"{path} is not UTF-8 at byte {error.start}: save it as UTF-8") from None
    except ValueError as error:
        raise ParameterError(f"{path} is not valid YAML: {error}") from None


def parsed_yaml(text: str) -> Any:
    """The value of a YAML text, plain values only. Raises ValueError, in one printable line."""
    import yaml

    try:
        value = yaml_nodes.parse(text)
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]  # no date, no number, no key …
        raise ValueError(reason if reason.isprintable() else repr(reason)[1:-1]) from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    _encodable(value)
    return value


def _encodable(value: Any) -> None:
    """Raise ValueError where a string holds half a character."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left += [*each, *each.values()]
        elif isinstance(each, (list, set, tuple)):
            left += each
        elif isinstance(each, str):
            each.encode()
            if "\0" in each:
                raise ValueError(f"{shown(each)!r} has a NUL character")
