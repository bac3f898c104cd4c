"""The comparison as a Markdown table."""

from __future__ import annotations

from epigram.core.display import escape_markdown
from epigram.evaluation.formats import (
    NO_TOKENS,
    SCORE_NAMES,
    abbreviate,
    change,
    level,
    milliseconds,
    percent,
    probability,
    score_with_interval,
)
from epigram.evaluation.summary import Row, Summary

MARK = {"chosen": "**chosen**", "tie": "= tie", "worse": "worse"}


def comparison_markdown(summary: Summary) -> str:
    """Return `comparison.md`: the verdict, one row per system, the notes."""
    score = SCORE_NAMES[summary.score]
    interval = f"{level(summary.confidence)} interval"
    head = ["system", "seeds", f"dev {score}", f"test {score} [{interval}]"]
    head += [
        *(f"test {name}" for name in summary.extra_scores),
        "parameters",
        "FLOPs per text",
        "ms per text",
        "vs. chosen",
        "p (dev)",
        "p (test)",
    ]
    lines = [f"# {escape_markdown(summary.dataset)}", "", escape_markdown(summary.verdict), ""]
    lines += [_line(head), _line(["---", *["---:"] * (6 + len(summary.extra_scores)), "---", *["---:"] * 2])]
    lines += [_line(_cells(row, summary)) for row in summary.rows]
    lines += ["", "p: Holm-corrected p-value of the difference from the chosen system."]
    lines += [f"* {escape_markdown(note)}" for note in summary.notes]
    return "\n".join(lines) + "\n"


def _cells(row: Row, summary: Summary) -> list[str]:
    return [
        escape_markdown(row.system),
        str(len(row.seeds)),
        percent(row.dev_score),
        NO_TOKENS if summary.labels_no_words(row) else score_with_interval(row.test_score, row.test_low, row.test_high),
        *(percent(getattr(row, field)) for field in summary.extra_scores.values()),
        change(abbreviate(row.parameters), abbreviate(row.parameters_pruned)),
        abbreviate(row.flops),
        milliseconds(row.ms_per_text),
        MARK[row.outcome],
        probability(row.p_dev),
        probability(row.p_test),
    ]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
