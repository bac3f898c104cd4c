"""Charts of a run, as SVG: the training curves and the chosen system's confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epigram.core.files import read_json
from epigram.core.label_limits import MAX_CLASSES
from epigram.runner.dvc.graph import Graph

LOSSES = {"training loss": "loss", "dev loss": "dev_loss"}

History = list[dict[str, float]]  # one entry per evaluation


def draw_charts(graph: Graph, chosen: str) -> dict[str, str]:
    """Return the run's charts by title, without those for which it has no data."""
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
    score = base | {"y": number("dev", scale={"zero": False}, axis={"format": ".0%", "tickCount": 5}, title="score")}
    axis = {"gridColor": LINE, "domainColor": LINE, "tickColor": LINE, "titleColor": MUTED}
    theme = {"font": FONT, "background": "transparent", "padding": 8, "view": {"stroke": None}, "axis": axis}
    panels = [mark("line", each) | {"width": 250, "height": 200} for each in (loss, score)]
    return svg(theme, data={"values": points}, hconcat=panels)
