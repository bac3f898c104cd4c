"""Write the tables and figures of docs/papers from what is measured and benchmarks/published.csv.

python -m benchmarks.papers writes them; `epigram table NAME` measures the cells of a table or a curve,
`python -m benchmarks.paper_counts` counts the data sets, and `python -m benchmarks.paper_matrices` records matrices. A
page has a block for each table and figure, and one for the legend of its tables.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import mean, stdev

from benchmarks.paper_figures import FIGURES
from benchmarks.timing import ROOT
from epigram.core.files import read_json, write_text
from epigram.runner.tables.definition import Column, Dataset, PrintedRow, PrintedTable, cells, read_table, table_names
from epigram.runner.tables.results import CellResult, missing_cells, read_results, remaining_minutes, settings

PAGES = ROOT / "docs/papers"
IMAGES = PAGES / "images"
PUBLISHED = ROOT / "benchmarks/published.csv"
COUNTS = ROOT / "benchmarks/results/papers/counts.json"
BLOCK = re.compile(r"<!-- (table|counts|figure|legend): (\S+) -->\n(.*?)<!-- /\1 -->\n", re.DOTALL)
HEAD = "| data set | row | metric | printed | paper's settings | less printed | epigram's defaults | verdict |"
COUNTS_HEAD = "| data set | quantity | printed | ours | difference |"
# factor to the printed unit, and decimals
COSTS = {"parameters_without_embeddings": (1e-6, 2), "batch_macs": (1e-9, 2), "depth_pruned": (1.0, 0)}
ROUNDED = 0.0051  # largest difference of a cost that the paper prints with two decimals
RANKING = ("accuracy", "micro_f1")  # with one label per text they are equal; with several, no table has the accuracy
COLUMNS: tuple[Column, Column] = ("paper", "default")
ABOUT: dict[Column, str] = {"paper": "the paper's settings", "default": "epigram's defaults"}
Place = tuple[str, str, Column]  # data set, row, column
LEGEND = """\
* A line is one score of one row, in percent. *printed* is the figure of the paper, *paper's settings* ours with
  `preset: paper` and the caps that are named below the table, and *epigram's defaults* ours without a preset. *less
  printed* and the verdict are of the paper's settings where they are measured, otherwise of the defaults.
* Several seeds are shown as mean ± standard deviation. A score without ± is of one seed.
* No setting of a network is searched; `tfidf_svm` chooses its settings on dev. Early stopping, pruning, depth control
  and, with several labels, the thresholds read dev too. Test is scored once.
* [low, high] is the 95% bootstrap interval over the test rows of the score that ranks the systems, the {ranking}; of
  several seeds, its ends are the means of their ends. It says nothing about seeds or other splits. Every other score,
  also one on dev, is judged by an interval of the same width around it.
* The verdict is *reproduced* if the interval contains the printed figure, *above* or *below* if our score is higher or
  lower and the interval does not contain it, and *not measured yet* without a result. *(defaults)* marks a verdict on
  the defaults of a row whose paper's settings are not measured yet.
* … marks a cell that is not measured yet, and – a figure that is not printed or a cell that the table does not have.
"""
COSTS_LEGEND = """\
* The depth is in layers and has no verdict, param_M is in millions, and FLOPs_G in thousand millions of multiply–adds.
  Costs have no interval: they are *equal* at two decimals, or *differs*.
"""
WORDS_LEGEND = """\
* For scores of words, the width is that of the accuracy of the sentences and not their own, so that their verdicts are
  weak evidence.
"""


@dataclass(frozen=True)
class Measured:
    """A value of some seeds in the unit of the paper, with its interval, which is None for a cost.

    `ranks` marks the score that ranks systems, to which the interval belongs; other scores have an interval of the same
    width. It has no values if the system has no such score.
    """

    values: list[float]
    interval: tuple[float, float] | None
    ranks: bool = False
    digits: int = 1

    def __str__(self) -> str:
        """Return the mean, the standard deviation and the number of seeds if there are several, and the interval.

        A number of layers that depends on the seed is a range.
        """
        if not self.values:
            return "–"
        if self.digits == 0:
            return " to ".join(f"{value:.0f}" for value in sorted({min(self.values), max(self.values)}))
        shown = f"{mean(self.values):.{self.digits}f}"
        if self.interval is not None and len(self.values) > 1:
            shown += f" ± {stdev(self.values):.1f}, n = {len(self.values)}"
        return shown + (f" [{self.interval[0]:.1f}, {self.interval[1]:.1f}]" if self.interval and self.ranks else "")


@cache
def published() -> dict[tuple[str, str, str, str], str]:
    """Return every printed value by table, data set, method and metric."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return {
            (row["table"], row["dataset"], row["method"], row["metric"]): row["value"] for row in csv.DictReader(file)
        }


def measured(table: PrintedTable, results: Iterable[CellResult], place: Place, score: str) -> Measured | None:
    """Return a score of all measured seeds of a place, or None; a cell whose settings have changed does not count.

    `score` is `dev` for the development score. The interval is the mean bootstrap interval of the test score that ranks
    systems; it reflects the choice of test rows.
    """
    wanted = {
        cell.seed: settings(table, cell) for cell in cells(table) if (cell.dataset, cell.row, cell.column) == place
    }
    mine = [
        each
        for each in results
        if (each.dataset, each.row, each.column) == place and each.settings == wanted.get(each.seed)
    ]
    if not mine:
        return None
    found = [each.dev if score == "dev" else each.scores.get(score) for each in mine]
    values = [value for value in found if value is not None]
    if score in COSTS:
        factor, digits = COSTS[score]
        return Measured([value * factor for value in values], None, digits=digits)
    low, high = (100 * mean(getattr(each, end) for each in mine) for end in ("low", "high"))
    if score in RANKING or not values:
        return Measured([100 * value for value in values], (low, high), ranks=True)
    middle, half = 100 * mean(values), (high - low) / 2
    return Measured([100 * value for value in values], (middle - half, middle + half))


def verdict(printed: float | None, ours: Measured | None, incomparable: str = "") -> str:
    """Return whether the printed value is reached: it lies in the interval of ours, or below it.

    `incomparable` is the verdict on every score of other data or of another checkpoint; costs do not depend on them.
    """
    if ours is None:
        return "not measured yet"
    if printed is None or not ours.values:
        return ""
    if ours.interval is None:
        return "equal" if abs(mean(ours.values) - printed) < ROUNDED else "differs"
    if incomparable:
        return incomparable
    low, high = ours.interval
    if low > printed:
        return "above"
    return "reproduced" if high >= printed else "below"


def lines(table: PrintedTable, found: list[CellResult]) -> Iterator[str]:
    """Yield a line for each data set, row and metric of the table."""
    planned = {(cell.dataset, cell.row, cell.column) for cell in cells(table)}
    for dataset, row in product(table.datasets, table.rows):
        if places := {column: (dataset, row, column) for column in COLUMNS if (dataset, row, column) in planned}:
            for name, metrics in table.printed.items():
                for metric, score in metrics.items():
                    ours = {column: measured(table, found, place, score) for column, place in places.items()}
                    key = (name, table.datasets[dataset].printed or dataset, table.rows[row].printed or row, metric)
                    names = [dataset, row, _origin(table, name) + metric]
                    yield _line(names, published().get(key, ""), ours, table.datasets[dataset].incomparable)


def _origin(table: PrintedTable, name: str) -> str:
    """Return the number of a printed table, to tell it from others that share their trainings with it."""
    return f"{_title(name)}, " if len(table.printed) > 1 else ""


def _line(names: list[str], printed: str, ours: dict[Column, Measured | None], incomparable: str) -> str:
    """Return a line; the column of the paper's settings is judged where it is measured, otherwise the defaults."""
    number = float(printed) if re.fullmatch(r"\d+(\.\d+)?", printed) else None
    judged = ours.get("paper") or ours.get("default")
    said = verdict(number, judged, incomparable)
    gap = ""
    if judged and judged.values and number is not None and said != incomparable:
        less = round(mean(judged.values) - number, judged.digits)
        gap = f"{less:+.{judged.digits}f}" if less else "0"
        said += "" if ours.get("paper") or "paper" not in ours else " (defaults)"
    paper, default = (str(ours[column] or "…") if column in ours else "–" for column in COLUMNS)
    texts = [*names, printed or "–", paper, gap, default, said]
    return f"| {' | '.join(texts)} |".replace("*", r"\*")


def rendered(name: str) -> str:
    """Return the Markdown of a table: how it is measured, the cells, and what is left."""
    table, found = read_table(ROOT, name), read_results(ROOT, name)
    head = [f"**{table.title}** (`benchmarks/tables/{name}.yaml`).{_left(name, table, found)}", ""]
    head += [HEAD, f"|{' --- |' * (HEAD.count('|') - 1)}"]
    return "\n".join([*head, *lines(table, found), "", *_notes(table), ""])


def _left(name: str, table: PrintedTable, found: list[CellResult]) -> str:
    """Return a sentence on the cells that are not measured, their estimated time, and the command."""
    missing, total = missing_cells(table, found), len(list(cells(table)))
    if not missing:
        return ""
    times = {"": table.minutes, **{f"{key}, ": dataset.minutes for key, dataset in table.datasets.items()}}
    each = [
        f"{where}{minutes[column]} with {ABOUT[column]}"
        for where, minutes in times.items()
        for column in COLUMNS
        if column in minutes
    ]
    return (
        f" {len(missing)} of {total} cells are not measured yet. They take an estimated "
        f"{remaining_minutes(table, missing)} minutes of one core (minutes a cell: {'; '.join(each)}). "
        f"`epigram table {name}` measures them, and continues where it was stopped."
    )


def _notes(table: PrintedTable) -> list[str]:
    """Return a line for the seeds, and for each difference between the printed and the measured work."""
    parts: dict[str, Dataset | PrintedRow] = {**table.datasets, **table.rows}
    told: dict[str, list[str]] = {}
    for name, part in parts.items():
        told.setdefault(part.differs, []).append(name)
    differences = [f"* {'; '.join(names)}: {text}." for text, names in told.items() if text]
    capped = {name: _flat(each) for name, each in table.datasets.items() if each.cap}
    caps = [f"* {name}: the column of the paper's settings has {cap}." for name, cap in capped.items()]
    absent = [f"* {_title(names)}: not measurable here: {reason}." for names, reason in table.absent.items()]
    return [_seeds(table), *differences, *caps, *absent]


def _seeds(table: PrintedTable) -> str:
    """Return a line that says how many seeds each row has once all cells are measured."""
    own, several = [name for name, row in table.rows.items() if row.own], len(table.seeds)
    if not own or several == 1:
        return "* Seeds: one of each row."
    if len(own) == len(table.rows):
        return f"* Seeds, once all are measured: {several} of each row."
    return f"* Seeds, once all are measured: {several} of {', '.join(own)}; one of each other row."


def _title(name: str) -> str:
    """Return the title of a printed table, Table 3 for CNLE_T3_multiclass, and any other name unchanged."""
    found = re.fullmatch(r"[A-Z]+_T(\d+)(_\w+)?", name)
    return f"Table {found[1]}" if found else name


def _flat(dataset: Dataset) -> str:
    return ", ".join(f"{section}.{key} = {value}" for section, cap in dataset.cap.items() for key, value in cap.items())


def counted(name: str) -> str:
    """Return the Markdown of a printed table of counts, and how they are counted."""
    table = read_json(COUNTS)[name]
    lines = [COUNTS_HEAD, f"|{' --- |' * (COUNTS_HEAD.count('|') - 1)}"]
    for dataset, method, metric, ours in table["counts"]:
        printed = published()[name, dataset, method, metric]
        quantity = metric if method == "-" else f"{method}, {metric}"
        shown = f"{ours:,}" if isinstance(ours, int) else str(ours)
        lines.append(f"| {dataset} | {quantity} | {printed} | {shown} | {difference(printed, ours)} |")
    return "\n".join([*lines, "", *(f"* {note}" for note in table["notes"]), ""])


def difference(printed: str, ours: float | str) -> str:
    """Return ours less printed at the printed precision; K is a thousand. It is empty for texts."""
    number = re.fullmatch(r"(\d+(?:\.(\d+))?)( K)?", printed)
    if number is None or isinstance(ours, str):
        return ""
    unit, digits = 1000 if number[3] else 1, len(number[2] or "")
    gap = round(ours / unit - float(number[1]), digits) * unit
    return f"{gap:+.{0 if number[3] else digits}f}" if gap else "0"


def pictured(name: str) -> str:
    """Return the Markdown of a figure and how to make it."""
    figure = FIGURES[name]
    how = f"`{figure.command(name)}` {figure.does}, `python -m benchmarks.papers` draws the figure."
    if figure.drawn(name) is None:
        return f"**{figure.title}**: not measured yet (about {figure.minutes(name)} minutes of one core). {how}\n"
    return f"![{figure.title}](images/{name}.svg)\n\n{figure.data(name)} {how}\n"


def legend(page: str) -> str:
    """Return the Markdown that explains the columns of a page's tables."""
    tables = [table for name in table_names(ROOT) if (table := read_table(ROOT, name)).page == page]
    scores = {score for table in tables for metrics in table.printed.values() for score in metrics.values()}
    others = sorted({each.incomparable for table in tables for each in table.datasets.values()} - {""})
    ranking = "micro-F1" if "micro_f1" in scores else "accuracy"
    lines = [
        LEGEND.format(ranking=ranking),
        COSTS_LEGEND if scores & COSTS.keys() else "",
        WORDS_LEGEND if "token_f1" in scores else "",
        *(f"* *{other}*: our score does not compare with the printed one; see below the table.\n" for other in others),
    ]
    return "".join(lines)


def written(page: Path) -> str:
    """Return the text of a page with its tables and figures."""
    write = {"table": rendered, "counts": counted, "figure": pictured, "legend": legend}
    return BLOCK.sub(
        lambda block: f"<!-- {block[1]}: {block[2]} -->\n{write[block[1]](block[2])}<!-- /{block[1]} -->\n",
        page.read_text(encoding="utf-8"),
    )


def main() -> None:
    """Rewrite the tables of all pages, and draw the figures."""
    for name, figure in FIGURES.items():
        if (drawing := figure.drawn(name)) is not None:
            write_text(IMAGES / f"{name}.svg", drawing)
    for page in sorted(PAGES.glob("*.md")):
        page.write_text(written(page), encoding="utf-8")


if __name__ == "__main__":
    main()
