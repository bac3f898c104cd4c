"""Definition of a printed table: which system of which data set each of its cells is, as a YAML file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from epigram.core.config_types import Checked, Name, Positive, Seed, Strict, is_name, nearest, read_yaml, validate_as
from epigram.core.errors import InputMissingError, ParameterError

FOLDER = Path("benchmarks/tables")
Seeds = Annotated[
    list[Seed], Checked(lambda seeds: 0 < len(set(seeds)) == len(seeds), "one or more different integers")
]
Column = Literal["paper", "default"]  # a system with the settings that its paper states, or with epigram's own


@dataclass(frozen=True, kw_only=True)
class Dataset(Strict):
    """A data set of the table: the source that stands for it, and how that differs from the printed one.

    `printed` is its name in benchmarks/published.csv, by default its key. `columns` are the measured columns. `cap`
    changes the systems of the column `paper` where the machine needs it, for example {train: {epochs: 3}}. `views` are
    in addition to the table's, and `sections` replace sections of params.yaml. `minutes` replace the table's for a data
    set of another size. `incomparable` says why no score has a verdict, for example another checkpoint.
    """

    source: Name
    printed: str = ""
    differs: str = ""
    incomparable: str = ""
    columns: list[Column] = field(default_factory=lambda: ["paper", "default"])
    cap: dict[Name, dict[str, Any]] = field(default_factory=dict)
    views: dict[Name, dict[str, Any]] = field(default_factory=dict)
    sections: dict[Name, dict[str, Any]] = field(default_factory=dict)
    minutes: dict[Column, Positive] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PrintedRow(Strict):
    """A row of the table: its system, as in params.yaml without a preset.

    `printed` is the name of the method in benchmarks/published.csv, by default its key. `own` marks the method of the
    paper, which is measured with all seeds. `only` names the data sets that have the row. `preset` is false for
    settings that are the paper's already, so that the row has no column `default`.
    """

    system: dict[str, Any]
    printed: str = ""
    own: bool = False
    preset: bool = True
    only: list[str] = field(default_factory=list)
    differs: str = ""


@dataclass(frozen=True, kw_only=True)
class PrintedTable(Strict):
    """One or more printed tables of the same trainings, or the sweep of a figure; `page` is their page in docs/papers.

    `printed` has the tables by their name in benchmarks/published.csv, each with its metrics by their printed name; a
    metric is the name of a score in a run's summary. It is empty for a figure. `minutes` is the estimated time of a
    cell of each column on one processor core. `absent` says why a data set or a row cannot be measured.
    """

    title: str
    page: Name
    printed: dict[str, dict[str, str]]
    seeds: Seeds
    minutes: dict[Column, Positive]
    views: dict[Name, dict[str, Any]]
    datasets: Annotated[dict[str, Dataset], Checked(bool, "one or more data sets")]
    rows: Annotated[dict[str, PrintedRow], Checked(bool, "one or more rows")]
    absent: dict[str, str] = field(default_factory=dict)


def check_rows(table: PrintedTable, chosen: Sequence[str]) -> Sequence[str]:
    """Return the `chosen` rows. Raises ParameterError for one that the table does not have."""
    if unknown := [name for name in chosen if name not in table.rows]:
        raise ParameterError(f"{table.title} has no row {unknown[0]!r}: {nearest(unknown[0], list(table.rows))}")
    return chosen


@dataclass(frozen=True)
class TableCell:
    """One training: a row of the table on a data set, with the settings of a column and one seed."""

    dataset: str
    row: str
    column: Column
    seed: int
    system: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of the system in a run."""
        return re.sub(r"[^A-Za-z0-9]+", "_", self.row).strip("_").lower()


def table_names(root: Path) -> list[str]:
    """Return the names of the tables that the project defines."""
    return sorted(path.stem for path in (root / FOLDER).glob("*.yaml"))


def read_table(root: Path, name: str) -> PrintedTable:
    """Read a table. Raises InputMissingError if the project does not define it, ParameterError if it is invalid."""
    names = table_names(root)
    if not names:
        raise InputMissingError(f"{FOLDER} has no table; run the command in a clone of epigram's repository")
    if not is_name(name) or name not in names:
        raise ParameterError(f"unknown table {name!r}: {nearest(name, names)}")
    path = FOLDER / f"{name}.yaml"
    table = validate_as(PrintedTable, read_yaml(root / path), file=str(path))
    if untimed := {column for each in table.datasets.values() for column in each.columns} - set(table.minutes):
        raise ParameterError(f"{path}: minutes has no time for the column {sorted(untimed)[0]}")
    for key, row in table.rows.items():
        if unknown := set(row.only) - set(table.datasets):
            raise ParameterError(f"{path}: rows.{key}.only names {sorted(unknown)[0]!r}, which is not in datasets")
    return table


def cells(table: PrintedTable) -> Iterator[TableCell]:
    """Yield the cells: the paper's own rows with the first seed, then the other rows, then own rows with further seeds.

    Of a seed, the column `default` comes first, because it takes a fraction of the time.
    """
    for seed in table.seeds:
        for own in (True, False) if seed == table.seeds[0] else (True,):
            rows = {name: row for name, row in table.rows.items() if row.own == own}
            for column, dataset in product(reversed(get_args(Column)), table.datasets):
                for name, row in rows.items():
                    if dataset in (row.only or table.datasets):
                        yield from _of_column(column, table.datasets[dataset], dataset, name, row, seed)


def _of_column(
    column: Column, source: Dataset, dataset: str, name: str, row: PrintedRow, seed: int
) -> Iterator[TableCell]:
    """Yield the cell of a column, if the row has it; a system without a preset has the column `default` alone."""
    from epigram.recipes.registry import PRESETS

    capped = {**row.system, **{key: {**row.system.get(key, {}), **cap} for key, cap in source.cap.items()}}
    has_preset = row.preset and row.system["recipe"] in PRESETS
    columns: dict[Column, dict[str, Any] | None] = {
        "paper": ({**capped, "preset": "paper"} if has_preset else capped) if has_preset or not row.preset else None,
        "default": row.system if row.preset else None,
    }
    if column in source.columns and (system := columns[column]) is not None:
        yield TableCell(dataset, name, column, seed, system)
