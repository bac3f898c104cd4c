"""The page of a run: charts and Markdown.

The dashboard's pages are narrow, so tables have few columns. Names, labels and notes come from the data, so they are
escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.files import read_json
from epigram.core.limits import MAX_CLASSES, list_names
from epigram.process.display import escape_markdown
from epigram.runner.dvc.graph import Graph

if TYPE_CHECKING:
    from epigram.evaluation.records.summary import Summary
    from epigram.report.table import Table


LOSSES = {"training loss": "loss", "dev loss": "dev_loss"}

History = list[dict[str, float]]  # one entry per evaluation


def draw_charts(graph: Graph, chosen: str) -> dict[str, str]:
    """Return the run's charts by title, without charts that lack data."""
    from epigram.core.records import read_record
    from epigram.evaluation.records.results import Metrics
    from epigram.report import charts

    drawn, histories = {}, dict[tuple[str, str], History]()
    outs = [out for stage in graph for out in stage.outs]
    for file in (file for out in outs for file in sorted(out.glob("seed-*/history.json"))):
        histories.setdefault((file.parent.parent.name, file.parent.name), read_json(file))  # a later stage copies it
    if trained := {name: lines for name, lines in histories.items() if lines}:
        drawn["Training: loss and dev score"] = training_curves(trained)
    found = (out / "metrics.json" for out in outs if out.name == chosen)
    metrics_file = next((path for path in found if path.is_file()), None)
    if metrics_file and (metrics := read_record(Metrics, metrics_file)).confusion:
        labels = len(metrics.labels)
        part = f" of the {MAX_CLASSES} most frequent of {labels:,} labels" if labels > MAX_CLASSES else ""
        drawn[f"{chosen} on the test set: confusion matrix{part}"] = charts.confusion(metrics)
    return drawn


def training_curves(histories: Mapping[tuple[str, str], History]) -> str:
    """Draw loss (left) and development score (right) at each evaluation, with one line per system and seed."""
    from epigram.report.charts import FONT, LINE, MUTED, mark, name, number, svg

    points = [
        {"system": system, "seed": seed, "step": line["step"], "part": part, "loss": line[key], "dev": line["dev"]}
        for (system, seed), lines in histories.items()
        for line in lines
        for part, key in LOSSES.items()
    ]
    low: dict[str, Any] = {"orient": "bottom", "symbolType": "stroke"}
    base = {
        "x": number("step", axis={"tickCount": 5, "tickMinStep": 1}),
        "color": name("system", legend=low, title=None),
        "detail": name("seed"),
    }
    dash = name("part", sort=list(LOSSES), legend=low, title=None)
    loss = base | {"y": number("loss", scale={"zero": False}), "strokeDash": dash}
    negative = any(
        line["dev"] < 0.0 for lines in histories.values() for line in lines
    )  # the scores are negative losses
    form = ".3~g" if negative else ".0%"
    score = base | {"y": number("dev", scale={"zero": False}, axis={"format": form, "tickCount": 5}, title="score")}
    axis = {"gridColor": LINE, "domainColor": LINE, "tickColor": LINE, "titleColor": MUTED}
    theme = {"font": FONT, "background": "transparent", "padding": 8, "view": {"stroke": None}, "axis": axis}
    panels = [mark("line", each) | {"width": 250, "height": 200} for each in (loss, score)]
    return svg(theme, data={"values": points}, hconcat=panels)


def comparison(summary: Summary, pictures: Sequence[str]) -> str:
    """Return the comparison as a page: verdict, one table row per system, notes and charts."""
    from epigram.report.columns import comparison as table_of
    from epigram.report.table import markdown_table

    table = markdown_table(table_of(summary, "dashboard"))
    return _page(summary.dataset, escape_markdown(summary.verdict), table, _list(summary.notes), *pictures)


def corpus(about: dict[str, Any]) -> str:
    """Return the data set as a page: its labels, the rows of its splits, and the notes of its validation."""
    from epigram.report.table import Cell, Heading, Line, Table, markdown_table

    labels = escape_markdown(list_names(about["labels"], MAX_CLASSES))
    lines = [Line([Cell(split), Cell(f"{number:,}")]) for split, number in about["rows"].items()]
    table = Table([Heading(text="split", kind="text"), Heading(text="rows", kind="number")], lines)
    description = f"{len(about['labels'])} labels: {labels}"
    return _page(about["name"], description, markdown_table(table), _list(about["notes"]))


def sweep(table: Table, verdicts: Iterable[str]) -> str:
    """Return the sweep as a page: its runs, and the best run on the development set for each data set."""
    from epigram.report.table import markdown_table

    return _page("sweep", markdown_table(table), _list(verdicts))


def report(name: str, verdict: str, folder: Path) -> str:
    """Return a page with the report's path as text: browsers do not follow links from HTTP pages to local files."""
    page, model = f"    {folder / 'report.html'}", f"    {folder / 'model'}"
    return _page(
        name,
        escape_markdown(verdict),
        "Full report, a single page that opens offline:",
        page,
        "Selected model:",
        model,
    )


def image(title: str, svg: str) -> str:
    """Embed an SVG in the text, so that no other server has to deliver it; on white, since the page may be dark."""
    from base64 import b64encode

    white = svg.replace("<svg ", '<svg style="background:white" ', 1)
    name = escape_markdown(title)
    return f"### {name}\n\n![{name}](data:image/svg+xml;base64,{b64encode(white.encode()).decode()})"


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {escape_markdown(title)}", *filter(None, parts)]) + "\n"


def _list(notes: Iterable[str]) -> str:
    return "\n".join(f"* {escape_markdown(note)}" for note in notes)
