"""Columns of the comparison. Each is declared once, here, with its heading in every table that shows it.

To add a column, add a function with `@column`: it returns the cell of a row, and its docstring is the tooltip of the
heading on a page. The order of the functions is the order of the columns. Tables:

    page        comparison in the HTML report
    speed       measured speed in the HTML report of a run
    file        comparison.md
    terminal    table that a run prints
    dashboard   Markdown artifact of Prefect's dashboard, whose pages are narrow
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from epigram.evaluation.comparison.choices import pareto_front
from epigram.evaluation.comparison.formats import (
    NO_TOKENS,
    abbreviate,
    change,
    ends_of,
    level,
    milliseconds,
    percent,
    probability,
    score_text,
    score_with_interval,
)
from epigram.evaluation.metrics.primary import title_of
from epigram.evaluation.records.results import Interval
from epigram.evaluation.records.summary import Row, Summary
from epigram.process.display import escape_markdown
from epigram.report.table import Cell, Heading, Kind, Line, Table, markdown_table

Where = Literal["page", "speed", "file", "terminal", "dashboard"]
Function = Callable[[Row, Summary], Cell]

SYMBOLS = {"chosen": "▸", "tie": "=", "worse": " ", "unranked": " "}
OUT_OF_FOLD = "out of fold, as there is no test split; of the chosen system, less the expected optimism"
OUTCOMES = {"chosen": "**chosen**", "tie": "= tie", "worse": "worse", "unranked": "not ranked"}


@dataclass(frozen=True, kw_only=True)
class Column:
    """Column of the comparison: headings by table, tooltip, kind, whether a summary has it, and a row's cell."""

    headings: Mapping[Where, str]  # `{score}` and `{level}` stand for the score's name and the confidence level
    about: str
    kind: Kind
    shown: Callable[[Summary], bool]
    cell: Function


COLUMNS: list[Column] = []


def column(
    headings: Mapping[Where, str],
    *,
    kind: Kind = "number",
    shown: Callable[[Summary], bool] = lambda summary: True,
) -> Callable[[Function], Function]:
    """Register the decorated function, which returns a row's cell, as the next column."""

    def register(cell: Function) -> Function:
        COLUMNS.append(Column(headings=headings, about=cell.__doc__ or "", kind=kind, shown=shown, cell=cell))
        return cell

    return register


def comparison(summary: Summary, where: Where) -> Table:
    """Return the comparison with the columns of the table `where`; the chosen system is highlighted."""
    columns = [each for each in COLUMNS if where in each.headings and each.shown(summary)]
    title = title_of(summary.score)  # it may name a label
    score = escape_markdown(title) if where in ("file", "dashboard") else title
    names = {"score": score, "level": level(summary.confidence)}
    return Table(
        [Heading(text=each.headings[where].format(**names), kind=each.kind, about=each.about) for each in columns],
        [Line([each.cell(row, summary) for each in columns], row.outcome == "chosen") for row in summary.rows],
    )


def comparison_markdown(summary: Summary) -> str:
    """Return `comparison.md`: the verdict, one row per system, the notes."""
    lines = [f"# {escape_markdown(summary.dataset)}", "", escape_markdown(summary.verdict), ""]
    lines += [markdown_table(comparison(summary, "file")), ""]
    lines += ["p: Holm-corrected p-value of the difference, on dev from the best system, on test from the chosen one."]
    if summary.out_of_fold:
        lines += ["", f"Test scores: {OUT_OF_FOLD}."]
    lines += ["", *(f"* {escape_markdown(note)}" for note in summary.notes)]
    return "\n".join(lines) + "\n"


@column({"page": "system", "speed": "system", "file": "system", "dashboard": "system"}, kind="text")
def system(row: Row, summary: Summary) -> Cell:
    """Name of the system in params.yaml."""
    return Cell(row.system, link=f"system-{row.system}")


@column({"terminal": "system"}, kind="text")
def marked_system(row: Row, summary: Summary) -> Cell:
    """Name of the system in params.yaml, preceded by a symbol for its outcome."""
    return Cell(f"{SYMBOLS[row.outcome]} {row.system}")


@column({"dashboard": ""}, kind="mark")
def outcome(row: Row, summary: Summary) -> Cell:
    """Whether the system is chosen, tied with the best one, worse, or not ranked."""
    return Cell(OUTCOMES[row.outcome])


@column({"file": "seeds"})
def seeds(row: Row, summary: Summary) -> Cell:
    """Number of trained models."""
    return Cell(str(len(row.seeds)))


@column({"page": "dev", "file": "dev {score}", "terminal": "dev", "dashboard": "dev {score}"})
def dev_score(row: Row, summary: Summary) -> Cell:
    """Score on the development set, averaged over the seeds, ± standard deviation; – if not ranked."""
    if row.outcome == "unranked":
        return Cell("–")
    return Cell(score_text(summary.score, row.dev_score), small=_spread(row.dev_std, summary))


@column({"page": "test"})
def test_score(row: Row, summary: Summary) -> Cell:
    """Score on the test set, averaged over the seeds, ± standard deviation."""
    return Cell(score_text(summary.score, row.test_score), small=_spread(row.test_std, summary))


@column({"page": "{level} interval"}, kind="interval")
def test_interval(row: Row, summary: Summary) -> Cell:
    """Confidence interval of the test score."""
    if summary.labels_no_words(row):
        return Cell(NO_TOKENS)
    text = " to ".join(ends_of(summary.score, row.test_low, row.test_high))
    return Cell(text, interval=Interval(value=row.test_score, low=row.test_low, high=row.test_high))


INTERVAL = "test, {level} interval"


@column({"file": "test {score} [{level} interval]", "terminal": INTERVAL, "dashboard": INTERVAL})
def test_score_and_interval(row: Row, summary: Summary) -> Cell:
    """Score on the test set, averaged over the seeds, and its confidence interval."""
    if summary.labels_no_words(row):
        return Cell(NO_TOKENS)
    return Cell(score_with_interval(summary.score, row.test_score, row.test_low, row.test_high))


@column(
    {"page": "macro-F1", "file": "test macro-F1", "terminal": "macro-F1"},
    shown=lambda summary: summary.score not in ("token_f1", "macro_f1"),
)
def macro_f1(row: Row, summary: Summary) -> Cell:
    """Mean F1 of the labels on the test set in percent."""
    return Cell(percent(row.macro_f1))


@column(
    {"page": "token F1", "file": "test token F1", "terminal": "token F1"},
    shown=lambda summary: summary.score != "token_f1" and summary.scores_words,
)
def token_f1(row: Row, summary: Summary) -> Cell:
    """F1 of the labelled words on the test set in percent."""
    return Cell(percent(row.token_f1))


@column(
    {"page": "token F0.5", "file": "test token F0.5", "terminal": "token F0.5"},
    shown=lambda summary: summary.score == "token_f1",
)
def token_f05(row: Row, summary: Summary) -> Cell:
    """F0.5 of the labelled words on the test set in percent; precision counts more than recall."""
    return Cell(percent(row.token_f05))


@column(
    {"page": "span F1", "file": "test span F1", "terminal": "span F1"},
    shown=lambda summary: summary.score == "token_f1",
)
def span_f1(row: Row, summary: Summary) -> Cell:
    """F1 of whole spans with the right type on the test set in percent."""
    return Cell(percent(row.span_f1))


@column({"page": "vs. best,\ndev"}, kind="mark")
def against_best_on_dev(row: Row, summary: Summary) -> Cell:
    """Difference from the best system on the development set; p is corrected by Holm’s method."""
    if row.outcome == "unranked":
        return Cell("not ranked")
    return Cell("best") if row.p_dev is None else _against("worse" if row.outcome == "worse" else "tie", row.p_dev)


@column({"page": "vs. chosen,\ntest"}, kind="mark")
def against_chosen_on_test(row: Row, summary: Summary) -> Cell:
    """Difference from the chosen system on the test set; p is corrected by Holm’s method."""
    return Cell("") if row.test_outcome is None else _against(row.test_outcome, row.p_test)


@column({"page": "parameters", "file": "parameters", "terminal": "parameters", "dashboard": "parameters"})
def parameters(row: Row, summary: Summary) -> Cell:
    """Number of parameters, before → after pruning; the median over the seeds."""
    return Cell(change(abbreviate(row.parameters), abbreviate(row.parameters_pruned)))


@column({"page": "FLOPs per text", "file": "FLOPs per text"})
def flops(row: Row, summary: Summary) -> Cell:
    """Floating-point operations of one text of median length; the same on every machine."""
    return Cell(abbreviate(row.flops))


@column({"file": "parameters without embeddings"})
def parameters_without_embeddings(row: Row, summary: Summary) -> Cell:
    """Number of parameters after pruning, without the tables of token vectors; the median over the seeds."""
    count = row.parameters_without_embeddings
    return Cell("–" if count is None else abbreviate(count))


@column({"file": "G multiply–adds per batch"})
def batch_macs(row: Row, summary: Summary) -> Cell:
    """Billions of multiply–adds in layers with weights for 64 texts of 100 tokens: the FLOPs of the DMSP paper."""
    return Cell("–" if row.batch_macs is None else f"{row.batch_macs / 1e9:.2f}")


def _timed(summary: Summary) -> bool:
    return any(row.ms_per_text for row in summary.rows)


@column({"page": "ms per text"}, shown=_timed)
@column({"speed": "ms per text", "file": "ms per text", "terminal": "ms/text", "dashboard": "ms per text"})
def ms_per_text(row: Row, summary: Summary) -> Cell:
    """Median milliseconds from one text to its label, tokenization included, with at most two CPU threads."""
    return Cell(milliseconds(row.ms_per_text))


@column({"speed": "texts per second,\nin batches"})
def texts_per_second(row: Row, summary: Summary) -> Cell:
    """Tokenized texts per second on the machine of the run, in batches, with the threads of the training."""
    return Cell(abbreviate(row.texts_per_second) if row.texts_per_second else "–")


@column({"page": "MB", "speed": "MB", "file": "MB"}, shown=lambda summary: any(row.megabytes for row in summary.rows))
def megabytes(row: Row, summary: Summary) -> Cell:
    """Size of the saved model in megabytes."""
    return Cell("–" if row.megabytes is None else abbreviate(row.megabytes))


@column({"speed": "front"}, kind="mark")
def front(row: Row, summary: Summary) -> Cell:
    """Whether no other system is at least as good in development score, time per text and size, and better in one."""
    return Cell("◆" if row.system in pareto_front(summary.rows) else "")


@column({"file": "outcome"}, kind="mark")
def choice(row: Row, summary: Summary) -> Cell:
    """Whether the system is chosen, tied with the best on the development set, worse, or not ranked."""
    return Cell(OUTCOMES[row.outcome])


@column({"file": "p (dev)"})
def p_dev(row: Row, summary: Summary) -> Cell:
    """Holm-corrected p-value of the difference from the best system, development set."""
    return Cell(probability(row.p_dev))


@column({"file": "p (test)"})
def p_test(row: Row, summary: Summary) -> Cell:
    """Holm-corrected p-value of the difference from the chosen system, test set."""
    return Cell(probability(row.p_test))


def _spread(std: float | None, summary: Summary) -> str:
    return "" if std is None else f"±{score_text(summary.score, std)}"


def _against(outcome: str, p: float | None) -> Cell:
    return Cell(f"{'= ' if outcome == 'tie' else ''}{outcome}", small=f"p\N{NO-BREAK SPACE}{probability(p)}")
