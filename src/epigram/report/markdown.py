"""The comparison as a Markdown file."""

from __future__ import annotations

from epigram.core.display import escape_markdown
from epigram.evaluation.summary import Summary
from epigram.report.columns import comparison
from epigram.report.table import markdown_table


def comparison_markdown(summary: Summary) -> str:
    """Return `comparison.md`: the verdict, one row per system, the notes."""
    lines = [f"# {escape_markdown(summary.dataset)}", "", escape_markdown(summary.verdict), ""]
    lines += [markdown_table(comparison(summary, "file")), ""]
    lines += ["p: Holm-corrected p-value of the difference from the chosen system."]
    lines += [f"* {escape_markdown(note)}" for note in summary.notes]
    return "\n".join(lines) + "\n"
