"""Data page of the report: an HTML fragment without scripts and external resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from epigram.core.label_limits import list_names, most_frequent
from epigram.core.templates import environment

Report = Mapping[str, Any]

HEIGHT, STEP, GAP = 120, 26, 2  # of the bars of a histogram, in SVG units


@dataclass(frozen=True)
class ClassRow:
    """One label: rows and share of each split, and its rows in train relative to those of the largest class."""

    label: str
    counts: list[tuple[int, float]]
    relative: float


@dataclass(frozen=True)
class ClassTable:
    """Rows of the labels that are most frequent in train, in each split; `total` counts all labels."""

    splits: list[str]
    rows: list[ClassRow]
    total: int


@dataclass(frozen=True)
class Bar:
    """Bar of a histogram, in SVG units; `span` says which lengths it counts, `label` is its lower edge."""

    x: int
    width: int
    height: float
    label: str
    span: str
    texts: int


@dataclass(frozen=True)
class LengthHistogram:
    """Number of texts in each length bin, all splits together."""

    unit: str
    width: int
    height: int
    bars: list[Bar]


def render_page(report: Report) -> str:
    """Return the HTML fragment for one validated corpus; `report` is the content of report.json."""
    env = environment("epigram.data.validation")
    env.filters |= {"number": _number, "percent": _percent, "names": list_names}
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


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _class_table(classes: Mapping[str, Mapping[str, int]], sizes: Mapping[str, int]) -> ClassTable:
    """Return the table of the labels; `sizes` are the rows, or tokens, of each split."""
    names, train = list(classes["train"]), list(classes["train"].values())
    largest = max(train, default=0) or 1
    rows = [
        ClassRow(
            label=names[place],
            counts=[
                (counts[names[place]], counts[names[place]] / (sizes[split] or 1)) for split, counts in classes.items()
            ],
            relative=train[place] / largest,
        )
        for place in most_frequent(train)
    ]
    return ClassTable(list(classes), rows, len(names))


def _histogram(unit: str, lengths: Report) -> LengthHistogram:
    edges: Sequence[int] = lengths["edges"]
    texts = [sum(column) for column in zip(*lengths["counts"].values(), strict=True)]
    highest = max(texts) or 1
    spans = [*(f"{low:,} to {high - 1:,}" for low, high in pairwise(edges)), f"{edges[-1]:,} or more"]
    labels = [*map(str, edges[:-1]), f"{edges[-1]}+"]
    bars = [
        Bar(x=place * STEP, width=STEP - GAP, height=HEIGHT * number / highest, label=label, span=span, texts=number)
        for place, (label, span, number) in enumerate(zip(labels, spans, texts, strict=True))
    ]
    return LengthHistogram(unit=unit, width=STEP * len(edges), height=HEIGHT, bars=bars)
