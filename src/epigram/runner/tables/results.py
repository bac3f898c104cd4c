"""Results of a printed table, cell by cell, and the runs that measure the cells without one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import read_json, write_json
from epigram.core.records import read_record
from epigram.evaluation.records.ensemble_record import ENSEMBLE
from epigram.runner.prefect.sweep import Trial
from epigram.runner.tables.definition import Column, PrintedTable, TableCell, cells, read_table
from epigram.runner.workspace.request import Request

FOLDER = Path("benchmarks/results/papers")


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """Scores of one cell by name, between 0 and 1, with the interval of the score that ranks systems.

    `settings` are the source, the system and its view, so that a changed definition is measured again. `seconds` are
    the working time of the stages of the system.
    """

    dataset: str
    row: str
    column: Column
    seed: int
    settings: dict[str, Any]
    scores: dict[str, float | None]
    dev: float
    low: float
    high: float
    rows: dict[str, int]
    seconds: float
    revision: str


@dataclass(frozen=True, kw_only=True)
class TableResults:
    """The measured cells of a table."""

    cells: list[CellResult]


def read_results(root: Path, name: str) -> list[CellResult]:
    """Read the measured cells; none if the table was never run. Raises DataError for a damaged file."""
    try:
        return read_record(TableResults, root / FOLDER / f"{name}.json").cells
    except InputMissingError:
        return []


def missing_cells(table: PrintedTable, measured: Iterable[CellResult], rows: Collection[str] = ()) -> list[TableCell]:
    """Return the cells without a result for their present settings, in the order in which they are measured.

    With `rows`, only cells of the rows with these names.
    """
    done = {_place(each): each.settings for each in measured}
    wanted = (cell for cell in cells(table) if not rows or cell.row in rows)
    return [cell for cell in wanted if done.get(_place(cell)) != settings(table, cell)]


def settings(table: PrintedTable, cell: TableCell) -> dict[str, Any]:
    """Return all that the definition says about a cell's training."""
    dataset = table.datasets[cell.dataset]
    view = {**table.views, **dataset.views}[cell.system["view"]]
    return {"source": dataset.source, "system": cell.system, "view": view, "sections": dict(dataset.sections)}


def make_trials(name: str, table: PrintedTable, missing: Iterable[TableCell], root: Path, prefix: str) -> list[Trial]:
    """Return one run for each missing cell; `prefix` begins the runs' names."""
    return [Trial(_request(table, cell, root, prefix), {"table": name, "place": _place(cell)}) for cell in missing]


def _request(table: PrintedTable, cell: TableCell, root: Path, prefix: str) -> Request:
    """Return the run of a cell, one stage at a time: as many cells as there are processors are measured together."""
    dataset = table.datasets[cell.dataset]
    view = cell.system["view"]
    changes: dict[str, Any] = {
        **dataset.sections,
        "views": {view: {**table.views, **dataset.views}[view]},
        "systems": {cell.name: cell.system},
        ENSEMBLE: {"enabled": False},
    }
    run = f"{prefix}-{dataset.source}-{cell.name}-{cell.column}-{cell.seed}"
    return Request(root=root, dataset=dataset.source, seeds=(cell.seed,), changes=changes, name=run, max_parallel=1)


def record(trial: Trial) -> None:
    """Add the cell of a finished run to the file of its table.

    Raises DataError if the run has no result of the cell, because the data set does not suit the system.
    """
    root, name = trial.request.root, str(trial.values["table"])
    table, measured = read_table(root, name), read_results(root, name)
    (cell,) = (each for each in cells(table) if _place(each) == tuple(trial.values["place"]))
    summary = read_json(root / "runs" / str(trial.request.name) / "summary.json")
    found = [row for row in summary["systems"] if row["system"] == cell.name]
    if not found:
        raise DataError(f"run {trial.request.name} has no result of {cell.row}: the data set does not suit it")
    kept = [each for each in measured if _place(each) != _place(cell)]
    results = TableResults(cells=[*kept, _result(table, cell, found[0], summary)])
    write_json(root / FOLDER / f"{name}.json", asdict(results))


def _place(cell: TableCell | CellResult) -> tuple[str, str, Column, int]:
    """Return the place of a cell in the table."""
    return cell.row, cell.dataset, cell.column, cell.seed


def _result(table: PrintedTable, cell: TableCell, row: dict[str, Any], summary: dict[str, Any]) -> CellResult:
    """Return the result of a cell from its system's row in the summary of a run."""
    costs = {key: row[key] for key in ("parameters_without_embeddings", "batch_macs", "depth", "depth_pruned")}
    return CellResult(
        dataset=cell.dataset,
        row=cell.row,
        column=cell.column,
        seed=cell.seed,
        settings=settings(table, cell),
        scores={**row["scores"], **costs},
        dev=row["dev_score"],
        low=row["test_low"],
        high=row["test_high"],
        rows=summary["splits"],
        seconds=sum(each["seconds"] for stage, each in summary["stages"].items() if stage.endswith(f"@{cell.name}")),
        revision=summary["revision"],
    )


def remaining_minutes(table: PrintedTable, missing: Iterable[TableCell]) -> int:
    """Return the estimated minutes of the missing cells on one processor core."""
    return sum(({**table.minutes, **table.datasets[cell.dataset].minutes})[cell.column] for cell in missing)
