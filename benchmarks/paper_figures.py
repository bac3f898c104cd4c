"""The figures of docs/papers: curves of the sweeps in benchmarks/tables, and heat maps of recorded matrices.

`epigram table NAME` measures a sweep, `python -m benchmarks.paper_matrices NAME` records matrices, and
`python -m benchmarks.papers` draws what is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks.paper_svg import Panel, Point, curves, heat_maps
from benchmarks.timing import ROOT
from epigram.core.errors import InputMissingError
from epigram.core.records import read_record
from epigram.runner.tables.definition import PrintedTable, cells, read_table
from epigram.runner.tables.results import CellResult, missing_cells, read_results, remaining_minutes

FOLDER = ROOT / "benchmarks/results/papers"


@dataclass(frozen=True, kw_only=True)
class Matrices:
    """The matrices of a figure, and the models that gave them.

    `rows` is the number of training texts, `systems` has the changed settings and `scores` the test accuracy of each.
    """

    source: str
    rows: int
    systems: dict[str, dict[str, Any]]
    scores: dict[str, float]
    text: str
    panels: list[Panel]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A score over a setting: the results of the sweep benchmarks/tables/NAME.yaml.

    `place` returns the setting of a system, and `lines` has the name of each recipe's line.
    """

    title: str
    place: Callable[[Mapping[str, Any]], float]
    lines: Mapping[str, str]
    score: str
    x: str
    y: str
    does: ClassVar[str] = "measures it"  # what the command does

    def command(self, name: str) -> str:
        """Return the command that measures the cells of the sweep."""
        return f"epigram table {name}"

    def minutes(self, name: str) -> int:
        """Return the estimated time of the missing cells, of all seeds, which its command measures."""
        table = read_table(ROOT, name)
        return remaining_minutes(table, missing_cells(table, read_results(ROOT, name)))

    def drawn(self, name: str) -> str | None:
        """Draw the curve if every row has its first seed."""
        table, found = read_table(ROOT, name), read_results(ROOT, name)
        if any(cell.seed == table.seeds[0] for cell in missing_cells(table, found)):
            return None
        return curves(self.points(table, found), x=self.x, y=self.y)

    def points(self, table: PrintedTable, found: list[CellResult]) -> dict[str, list[Point]]:
        """Return the points of each line, in percent; a cell whose settings have changed does not count."""
        missing, values = missing_cells(table, found), dict[str, dict[float, list[float]]]()
        scores = {(each.dataset, each.row, each.column, each.seed): each.scores[self.score] for each in found}
        for cell in cells(table):
            score = scores.get((cell.dataset, cell.row, cell.column, cell.seed))
            if cell not in missing and score is not None:
                line = values.setdefault(self.lines[cell.system["recipe"]], {})
                line.setdefault(self.place(cell.system), []).append(100 * score)
        return {name: [Point(x, tuple(line[x])) for x in sorted(line)] for name, line in values.items()}

    def data(self, name: str) -> str:
        """Return how many seeds there are of each point."""
        table, found = read_table(ROOT, name), read_results(ROOT, name)
        seeds = len(table.seeds) - len({cell.seed for cell in missing_cells(table, found)})
        return f"Test scores of {seeds} seed{'s' if seeds > 1 else ''} with epigram's defaults, without pruning."


@dataclass(frozen=True, kw_only=True)
class HeatMaps:
    """Recorded matrices of small models."""

    title: str
    does: ClassVar[str] = "trains the models"  # what the command does

    def minutes(self, _: str) -> int:
        """Return the estimated time of the trainings."""
        return 5

    def command(self, name: str) -> str:
        """Return the command that trains the models and records their matrices."""
        return f"EPIGRAM_MIRROR=FOLDER python -m benchmarks.paper_matrices {name}"

    def drawn(self, name: str) -> str | None:
        """Draw the recorded matrices."""
        try:
            return heat_maps(self.recorded(name).panels)
        except InputMissingError:
            return None

    def data(self, name: str) -> str:
        """Return what the models are trained on, with which changed settings, and their scores."""
        found = self.recorded(name)
        scores = ", ".join(f"`{system}` {100 * score:.1f}" for system, score in found.scores.items())
        changes = {
            f"{section}.{key} = {value}": None
            for system in found.systems.values()
            for section, values in system.items()
            for key, value in values.items()
        }
        changed = f" except {' and '.join(changes)}" if changes else ""
        data = f"{found.rows:,} texts of the source `{found.source}`"
        return f"Trained on {data} with one seed and epigram's defaults{changed}; test accuracy: {scores}."

    def recorded(self, name: str) -> Matrices:
        """Read the matrices. Raises InputMissingError if they are not recorded."""
        return read_record(Matrices, FOLDER / f"{name}.json")


def hook_place(system: Mapping[str, Any]) -> float:
    """Return √(b/a), where the hook is lowest."""
    return math.sqrt(system["head"]["hook_b"] / system["head"]["hook_a"])


def labelled_share(system: Mapping[str, Any]) -> float:
    """Return the percentage of the training sentences with word labels."""
    return 100.0 * float(system.get("train", {}).get("token_supervision", 0.0))


FIGURES: dict[str, Curve | HeatMaps] = {
    "hth_figure_6": Curve(
        title="Weighted F1 on COLD over γ",
        place=lambda system: float(system["head"]["gamma"]),
        lines={"bert_pta": "bert_pta"},
        score="weighted_f1",
        x="γ",
        y="weighted F1, %",
    ),
    "hth_attention": HeatMaps(
        title="Attention before and after the head-to-head step",
    ),
    "transformer_f_figure_3": Curve(
        title="Accuracy on CED over √(b/a)",
        place=hook_place,
        lines={"transformer_f": "transformer_f"},
        score="accuracy",
        x="√(b/a)",
        y="accuracy, %",
    ),
    "transformer_f_attention": HeatMaps(
        title="Self-attention and correlation attention of a sentence",
    ),
    "cnle_attention": HeatMaps(
        title="Co-attention of a text and its labels",
    ),
    "dmsp_votes": HeatMaps(
        title="Votes by depth with and without depth control",
    ),
    "mhal_figure_3": Curve(
        title="F1\\* of the words of SST over the share of sentences with word labels",
        place=labelled_share,
        lines={"mhal_joint": "MHAL-joint", "mhal_tok": "MHAL-tok", "mhal_zero": "MHAL-zero"},
        score="token_f1",
        x="sentences with word labels, %",
        y="F1* of the words, %",
    ),
    "mhal_heads": HeatMaps(
        title="Heads of MHAL over a sentence",
    ),
}
