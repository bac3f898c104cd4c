"""Labelled texts from Python as the raw folder that the pipeline's stage `download` writes."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import sha256, write_json
from epigram.text.dataset.language import Language

if TYPE_CHECKING:
    import polars as pl

    from epigram.data.sources.inspection import Inspection
    from epigram.data.tables import Options

TABLE = "texts.parquet"
NAME = "texts"  # name of the data set of a fit without a file, or whose file has another name than a data set can have


def write_raw(
    data: Any,
    labels: Iterable[Any] | None,
    *,
    text: str | Sequence[str],
    label: str,
    language: Language | None,
    folder: Path,
    group: Any = None,
    time: Any = None,
    slices: Sequence[str] | Mapping[str, Iterable[Any]] = (),
    ordered: Iterable[Any] | None = None,
    hierarchy: str = "",
    training: bool = True,
    options: Options | None = None,
    caller: str = "fit",
) -> list[str]:
    """Write the texts and source.json to `folder`; return notes on how they are read.

    `data` is a table, a folder with a folder per label, a frame (polars, pandas or another one that narwhals knows)
    with the columns `text` and `label`, or texts with as many `labels`: one for each text, or a list of them. `group`
    or `time` is a column, or has a value for each text; `slices` are columns, or map names to such values. `ordered`
    are the labels in their order. `hierarchy` is the separator of their levels. Texts that are not for
    `training` may all have the same label. `options` are known options of the table's reader. Messages begin with
    `caller`.
    Raises ParameterError for texts and labels that do not fit together, and the errors of `inspect`.
    """
    from epigram.data.sources.inspection import inspect
    from epigram.data.tables import column_names

    folder.mkdir(parents=True)
    keys = {name: given for name, given in (("group", group), ("time", time)) if given is not None}
    if labels is None and (listed := [name for name, given in keys.items() if not isinstance(given, str)]):
        kind = type(keys[listed[0]]).__name__
        raise ParameterError(f"{caller}: {listed[0]} is {kind}; expected the name of a column")
    named = keys if labels is None else {name: name for name in keys}
    if isinstance(slices, Mapping) == (labels is None) and slices:
        kind = type(slices).__name__
        raise ParameterError(f"{caller}: slices is {kind}; expected column names, or with labels a mapping")
    columns = {"text": column_names(text), "label": label, "split": None, "label_separator": None, **named}
    columns |= {"keep": list(slices), "join": (options or {}).get("join")}
    if isinstance(data, (str, Path)):
        if labels is not None:
            raise ParameterError(
                f"{caller}: {str(data)!r} is a file, and labels are given; pass label='COLUMN' instead"
            )
        file, found = _copy_table(Path(data), columns | (options or {}), folder)
    else:
        file = folder / TABLE
        names = [text] if isinstance(text, str) else list(text)
        if labels is not None and len(names) > 1:
            raise ParameterError(f"{caller}: text is {names}, and texts are given; expected a frame or a file")
        if labels is None:
            frame = _frame(data, names, [label, *named.values(), *slices], caller)
        else:
            more = keys | (dict(slices) if isinstance(slices, Mapping) else {})
            frame = _columns(data, labels, names[0], label, more, caller)
        frame.write_parquet(file)
        found = inspect(file, columns)
    if found.task == "tokens":
        raise ParameterError(
            f"{caller}: only words have labels; use epigram add and epigram run to train on and score them"
        )
    files = [{"path": file.name, "local": file.name, "sha256": sha256(file)}]
    order = None if ordered is None else [str(each) for each in as_list(ordered, "ordered", caller)]
    found = found.in_order(order)
    if training:
        found.check_trainable(data if isinstance(data, (str, Path)) else "the table")
        found = found.with_levels(hierarchy)
    values = found.description(_name_of(data), "texts given to fit", files, language)
    write_json(folder / "source.json", values)
    return found.notes


def _name_of(data: Any) -> str:
    """Return the name of the file or folder `data` as the name of a data set, or NAME."""
    from epigram.core.config_types import is_name
    from epigram.data.packed import file_stem
    from epigram.data.sources.source import GROWING_SUFFIX

    stem = file_stem(Path(data)) if isinstance(data, (str, Path)) else ""
    name = re.sub(r"[^a-z0-9_-]+", "_", stem.lower()).strip("_-").removesuffix(GROWING_SUFFIX)
    return name if is_name(name) and name != "local" else NAME  # data/sources/local.yaml is the example of a project


def _copy_table(data: Path, options: Options, folder: Path) -> tuple[Path, Inspection]:
    """Copy a table, or a folder's texts as a table, to `folder`; return the copy and its description."""
    from epigram.data.sources.inspection import inspect_any

    if not data.exists():
        raise InputMissingError(f"{data} does not exist")
    with inspect_any(data, options) as (table, found):
        return Path(shutil.copyfile(table, folder / table.name)), found


def _columns(
    texts: Iterable[Any], labels: Iterable[Any], text: str, label: str, keys: Mapping[str, Any], caller: str
) -> pl.DataFrame:
    """Return texts, labels and groups or times as a frame; numbers, truth values and dates become their text."""
    import polars as pl

    listed, given = as_list(texts, "texts", caller), as_list(labels, "labels", caller)
    if len(listed) != len(given):
        raise ParameterError(f"{caller}: there are {len(listed):,} texts and {len(given):,} labels; expected as many")
    if wrong := [each for each in listed if not isinstance(each, str)]:
        raise ParameterError(f"{caller}: texts has {wrong[0]!r}; expected strings")
    if missing := [number for number, each in enumerate(given) if _is_missing(each)]:
        raise ParameterError(f"{caller}: the text at {missing[0]} has no label; leave out the texts without one")
    several = [isinstance(each, (list, tuple, set)) for each in given]
    if any(several) and not all(several):
        raise ParameterError(f"{caller}: some labels are lists and some are not; expected one kind for all texts")
    names: list[Any] = [sorted(map(str, each)) for each in given] if any(several) else list(map(str, given))
    columns: dict[str, Any] = {text: listed, label: names}
    for name, values in ((name, as_list(each, name, caller)) for name, each in keys.items()):
        if len(values) != len(listed):
            raise ParameterError(f"{caller}: there are {len(listed):,} texts and {len(values):,} values of {name}")
        columns[name] = pl.Series([None if _is_missing(each) else str(each) for each in values], dtype=pl.String)
    return pl.DataFrame(columns)


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float) and math.isnan(label))


def as_list(values: Iterable[Any], what: str, caller: str = "fit") -> list[Any]:
    """Return the values of a list, an array or a series. Raises ParameterError for one string or a mapping."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ParameterError(f"{caller}: {what} is {type(values).__name__}; expected a list, an array or a series")
    convert = getattr(values, "to_list", None) or getattr(values, "tolist", None)  # elements as Python's own types
    return list(values if convert is None else convert())


def _frame(data: Any, texts: Sequence[str], others: Sequence[str], caller: str) -> pl.DataFrame:
    """Return the frame of any library as polars'. Raises ParameterError for another type or missing columns."""
    import narwhals as nw
    import polars as pl

    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        raise ParameterError(
            f"{caller}: expected texts with labels, a frame or a file, not {type(data).__name__} without labels"
        ) from None
    if missing := [name for name in (*texts, *others) if name not in frame.columns]:
        known = ", ".join(frame.columns)
        raise ParameterError(f"{caller}: the frame has no column {missing[0]!r}; its columns are {known}")
    return pl.DataFrame({name: frame[name].to_list() for name in _kept(frame.columns, [*texts, *others])}, strict=False)


def _kept(columns: Sequence[str], first: Sequence[str]) -> list[str]:
    return [*first, *(name for name in columns if name not in first)]
