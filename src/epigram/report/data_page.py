"""Section "Data" of the report: the splits, classes, lengths, vocabulary, leaks and violated rules of a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from epigram.core.limits import most_frequent
from epigram.report.page import report_environment

Report = Mapping[str, Any]


def render_page(report: Report) -> str:
    """Return the HTML fragment for one validated corpus; `report` is the content of report.json."""
    env = report_environment()
    env.filters["number"] = lambda value: "–" if value is None else f"{value:,}"
    found, remaining = report["leaks"]["found"], report["leaks"]["left"]
    units = ["characters"] if report["vocabulary"]["unit"] == "character" else list(report["length"])
    tokens = {split: sum(counts.values()) for split, counts in report["token_classes"].items()}
    return env.get_template("data.html.j2").render(
        report=report,
        classes=_class_table(report["classes"], report["rows"]),
        token_classes=_class_table(report["token_classes"], tokens) if tokens else None,
        histograms=[_histogram(unit, report["length"][unit]) for unit in units],
        leaks=[("source", found), *([] if found == remaining else [("after validation", remaining)])],
    )


def _class_table(classes: Mapping[str, Mapping[str, int]], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the rows of the labels that are most frequent in train; `sizes` are the rows, or tokens, of each split.

    A row has a label, its rows and share in each split, and its rows in train relative to the largest class.
    """
    names, train = list(classes["train"]), list(classes["train"].values())
    largest = max(train, default=0) or 1
    rows = [
        (
            names[place],
            [(counts[names[place]], counts[names[place]] / (sizes[split] or 1)) for split, counts in classes.items()],
            train[place] / largest,
        )
        for place in most_frequent(train)
    ]
    return {"splits": list(classes), "rows": rows, "total": len(names)}


def _histogram(unit: str, lengths: Report) -> dict[str, Any]:
    """Return the number of texts in each length bin, all splits together, with the bin's lower edge and its range."""
    edges: Sequence[int] = lengths["edges"]
    texts = [sum(column) for column in zip(*lengths["counts"].values(), strict=True)]
    spans = [*(f"{low:,} to {high - 1:,}" for low, high in pairwise(edges)), f"{edges[-1]:,} or more"]
    labels = [*map(str, edges[:-1]), f"{edges[-1]}+"]
    return {"unit": unit, "highest": max(texts) or 1, "bars": list(zip(labels, spans, texts, strict=True))}
