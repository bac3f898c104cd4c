"""Options that several commands share, and the request that they describe."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epigram.core.config_types import parse_yaml, shown
from epigram.core.errors import ParameterError
from epigram.text.lines import check_encoding

if TYPE_CHECKING:
    from epigram.runner.workspace.request import Request

TABLES = "csv, tsv, jsonl, json (each also as .gz), parquet or xlsx"
MAX_DIGITS = 10  # maximum digits of an integer option

Dataset = Annotated[
    str,
    typer.Option(help="Data set: the name of a file in data/sources, for example mr. Default: dataset in params.yaml."),
]
Systems = Annotated[
    str, typer.Option(help='Comma-separated system names, or "all". Default: the systems in params.yaml.')
]
Seeds = Annotated[str, typer.Option(help="Comma-separated seeds, for example 0,1,2. Default: seeds in params.yaml.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a key of params.yaml: KEY=VALUE, for example seeds=[0,1]. May be repeated."),
]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="Encoding of the input, for example gb18030. Default: detected.")
]
Separator = Annotated[
    str | None, typer.Option(metavar="C", help="Separator of a csv file, for example ; or tab. Default: detected.")
]
Text = Annotated[str, typer.Option(metavar="COLUMNS", help="Text column, or several that are joined: title,body.")]
Ordered = Annotated[
    str | None, typer.Option(metavar="LABELS", help="Labels in their order, if they have one: bad,fair,good.")
]
Hierarchy = Annotated[
    str, typer.Option(metavar="TEXT", help="Separator of levels in labels such as goods/phone: each level is scored.")
]
TextOfModel = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS", help="Text column of a table, or several: title,body. Default: as in training, or text."
    ),
]
Group = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column, such as author: no value of it is in two splits or folds.")
]
Time = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of times or numbers: the newest rows are the test split.")
]
Slice = Annotated[
    str,
    typer.Option("--slice", metavar="COLUMNS", help="Columns, such as channel,date: the report scores each value."),
]
Sheet = Annotated[
    str | None, typer.Option(metavar="NAME", help="Sheet of a workbook (.xlsx). Default: the only one with rows.")
]
Ray = Annotated[str, typer.Option(help="Ray cluster to run on: local, auto, HOST:PORT or ray://HOST:PORT.")]


def make_request(
    *,
    dataset: str,
    systems: str,
    seeds: str,
    changes: list[str] | None,
    max_parallel: int | None,
    max_silence: int | None = None,
    name: str = "",
    ray: str = "",
) -> Request:
    """Return the request for a run of the project in the current folder.

    Raises ParameterError for an option that is invalid.
    """
    from epigram.runner.workspace.request import Request
    from epigram.runner.workspace.run_folders import check_run_name

    if name:
        check_run_name(name)
    return Request(
        root=Path.cwd(),
        dataset=dataset or None,
        systems=tuple(split_list(systems)),
        seeds=tuple(parse_number("--seeds", seed) for seed in split_list(seeds)),
        changes=to_unique_dict("--set", map(parse_change, changes or [])),
        max_parallel=max_parallel,
        max_silence=max_silence,
        name=name or None,
        ray=ray or None,
    )


def file_options(encoding: str | None, separator: str | None, sheet: str | None) -> dict[str, str]:
    """Return the reader's options that the command line names. Raises ParameterError for an invalid one."""
    options = {} if sheet is None else {"sheet": sheet}
    if encoding is not None:
        options["encoding"] = check_encoding(encoding)
    if separator is not None:
        options["separator"] = "\t" if separator == "tab" else separator
        if len(options["separator"]) != 1 or not separator.isascii():
            raise ParameterError(f"--separator is {separator!r}; expected one ASCII character, or tab")
    return options


def split_list(text: str) -> list[str]:
    """Return the parts of a comma-separated option."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_number(option: str, text: str) -> int:
    """Parse a whole number of an option. Raises ParameterError if it is invalid."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        value = shown(repr(text))
        raise ParameterError(f"invalid {option} {value}: expected comma-separated integers, for example 0,1,2")
    return int(text)


def to_unique_dict(option: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the keys and values of an option as a dictionary. Raises ParameterError for a repeated key."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ParameterError(f"{option} {shown(key)} is given twice; remove one of them")
        values[key] = value
    return values


def parse_change(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE, with a key of params.yaml. Raises ParameterError if it is invalid."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ParameterError(f"invalid --set {text!r}: expected KEY=VALUE, for example --set seeds=[0,1]")
    return key, parse_value(f"--set {key}", value)


def parse_value(option: str, text: str) -> Any:
    """Parse the YAML value of an option. Raises ParameterError if it is invalid."""
    try:
        return parse_yaml(text)
    except ValueError as error:
        raise ParameterError(f"invalid {option}: {shown(repr(text))} is not a YAML value ({error})") from None
