"""Charts of the report: Vega-Lite specifications rendered to static SVG without scripts.

The colours are the light theme's. Each colour has a name, and the report's style sheet replaces it with the
colour of that name in the reader's theme.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from epigram.evaluation.metrics.primary import in_percent
from epigram.evaluation.quality.learning_curve import LearningCurve
from epigram.evaluation.records.pruning_record import PruningRecord
from epigram.evaluation.records.results import Bin, Coverage, Metrics
from epigram.evaluation.records.summary import Summary
from epigram.report import classes

INK, MUTED, LINE, ACCENT, SECOND = "#1d232b", "#667080", "#dfe3e8", "#2a62c4", "#c2570c"
COLOURS = {"ink": INK, "muted": MUTED, "line": LINE, "accent": ACCENT, "second": SECOND}
FONT = "system-ui, sans-serif"
CLIPPED = 60  # characters of a label that are kept; more than an axis has room for
CELLS_WITH_NUMBERS = 20  # labels up to which a confusion matrix prints its shares and describes its cells
AXIS = {"labelColor": INK, "titleColor": MUTED, "gridColor": LINE, "domainColor": LINE, "tickColor": LINE}
TEXT = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 12}
THEME = {"background": "transparent", "font": FONT, "padding": 4, "view": {"stroke": None}, "axis": {**AXIS, **TEXT}}
SHARE = {"scale": {"domain": [0, 1]}, "axis": {"format": "%", "tickCount": 5}}

Spec = dict[str, Any]  # a Vega-Lite specification or a part of one


def confusion(metrics: Metrics) -> str:
    """Draw the confusion matrix as a heat map: the share of a gold label's rows (y) predicted as each label (x)."""
    shown = classes.confusion(metrics.labels, metrics.confusion)
    names = [label[:CLIPPED] for label in shown.labels]
    values = [
        {
            "gold": y,
            "predicted": x,
            "share": share,
            "pair": f"{names[y]} as {names[x]}",
            "text": [f"{share:.0%}", f"{shown.counts[y][x]:,}"],
        }
        for y, line in enumerate(shown.shares)
        for x, share in enumerate(line)
    ]
    size, large = min(72, max(12, 420 // len(names))), len(names) > CELLS_WITH_NUMBERS
    plain = {"labelLimit": 110, "labelPadding": 6, "domain": False, "ticks": False, "labelExpr": "labels[datum.value]"}
    x = plain | {"labelAngle": -90 if max(map(len, names)) * 8 > size else 0}
    # Opacity, not colour, shows the share, because it is readable in both the light and the dark theme.
    opacity = number("share", scale={"domain": [0, 1], "range": [0.04, 0.72]}, legend=None)
    cells = mark("rect", {"opacity": opacity, "description": name("pair")}, fill=ACCENT, stroke=None, aria=not large)
    numbers = mark("text", {"text": {"field": "text"}}, where="datum.share > 0", fill=INK, fontSize=11, dy=-5)
    return svg(
        data={"values": values},
        # The scales use label numbers: Vega confuses a label such as "constructor" with its own names.
        params=[{"name": "labels", "value": names}],
        encoding={
            "x": {"field": "predicted", "type": "ordinal", "axis": x, "title": "predicted"},
            "y": {"field": "gold", "type": "ordinal", "axis": plain | {"labelAngle": 0}, "title": "gold"},
        },
        layer=[cells] if large else [cells, numbers],
        width={"step": size},
        height={"step": min(size, 44)},
    )


def reliability(bins: Sequence[Bin]) -> str:
    """Draw accuracy against confidence; a point's area is the share of predictions in its bin."""
    total = sum(bin.count for bin in bins)
    points = [{"x": bin.confidence, "y": bin.accuracy, "share": bin.count / total} for bin in bins]
    area = number("share", scale={"domain": [0, 1], "range": [20, 700]}, legend=None)
    ideal = mark("line", {}, stroke=MUTED, strokeDash=[4, 4], strokeWidth=1)
    return svg(
        data={"values": points},
        encoding={"x": number("x", title="confidence", **SHARE), "y": number("y", title="accuracy", **SHARE)},
        layer=[
            ideal | {"data": {"values": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]}},
            mark("line", {}, stroke=ACCENT),
            mark("circle", {"size": area}, fill=ACCENT, stroke=None, opacity=0.55),
        ],
        width=300,
        height=240,
    )


def coverage(points: Sequence[Coverage]) -> str:
    """Draw the accuracy of the predictions that are kept against their share of the test texts."""
    values = [{"x": point.coverage, "y": point.accuracy} for point in points if point.accuracy is not None]
    y = number("y", title="accuracy of the kept", scale={"zero": False}, axis={"format": ".1~%", "tickCount": 5})
    return svg(
        data={"values": values},
        encoding={"x": number("x", title="share of the test texts that is kept", **SHARE), "y": y},
        layer=[mark("line", {}, stroke=ACCENT), mark("circle", {}, fill=ACCENT, size=60, opacity=1)],
        width=300,
        height=240,
    )


def learning_curve(curve: LearningCurve) -> str:
    """Draw the accuracy at each size of the training set, the fitted law, and the interval with twice the rows."""
    first, last = curve.sizes[0], 2 * curve.rows
    law = [first * (last / first) ** (step / 40) for step in range(41)]
    x = number(
        "rows", scale={"type": "log", "nice": False}, axis={"format": "~s", "grid": False}, title="labelled rows"
    )
    y = number("accuracy", scale={"zero": False}, axis={"format": ".1~%", "tickCount": 5}, title="accuracy")
    doubled = {"rows": last, "accuracy": curve.doubled.value, "low": curve.doubled.low, "high": curve.doubled.high}
    interval = {"x": x, "y": number("low", title="accuracy"), "y2": {"field": "high"}}
    points = [{"rows": rows, "accuracy": share} for rows, share in zip(curve.sizes, curve.accuracy, strict=True)]
    lines = [{"rows": rows, "accuracy": curve.expected(rows)} for rows in law]
    layers = [
        mark("line", {"x": x, "y": y}, stroke=MUTED, strokeDash=[4, 4]) | {"data": {"values": lines}},
        mark("rule", interval, stroke=SECOND) | {"data": {"values": [doubled]}},
        mark("circle", {"x": x, "y": y}, fill=SECOND, size=60, opacity=1) | {"data": {"values": [doubled]}},
        mark("circle", {"x": x, "y": y}, fill=ACCENT, size=60, opacity=1) | {"data": {"values": points}},
    ]
    return svg(layer=layers, width=420, height=240)


def depth(pruning: PruningRecord) -> str:
    """Draw the dev score of each layer's classifier (mean over the seeds), the threshold, and rings at kept depths."""
    points = [{**vars(point), "kept": point.depth in pruning.kept_depths} for point in pruning.averaged()]
    field = "classifier_score"
    form = ".1%" if all(point[field] >= 0.0 for point in points) else ".3~g"  # a negative score is that of a loss
    y = number(field, scale={"zero": False}, axis={"format": form}, title="dev score of the layer’s classifier")
    axes = {"x": {"field": "depth", "type": "ordinal", "axis": {"labelAngle": 0}, "title": "layers kept"}, "y": y}
    layers = [
        mark("line", axes, stroke=ACCENT),
        mark("circle", axes, fill=ACCENT, size=60, opacity=1),
        mark("point", axes, where="datum.kept", stroke=SECOND, size=220, strokeWidth=2, filled=False),
    ]
    if pruning.threshold is not None:
        threshold = mark("rule", {"y": number(field)}, stroke=MUTED, strokeDash=[4, 4])
        layers.append(threshold | {"data": {"values": [{field: pruning.threshold}]}})
    return svg(data={"values": points}, layer=layers, width=max(240, 40 * len(points)), height=200)


def speed(summary: Summary) -> str:
    """Draw test score against milliseconds per text (log scale), with one point and interval per system."""
    timed = [(row, row.ms_per_text) for row in summary.rows if row.ms_per_text]
    middle = sqrt(min(ms for _, ms in timed) * max(ms for _, ms in timed))
    keys = ("system", "test_score", "test_low", "test_high", "outcome")
    points = [{"ms": ms, "slow": ms > middle} | {key: getattr(row, key) for key in keys} for row, ms in timed]
    axis = {"format": "~g", "tickCount": 5, "grid": False}
    scale = {"type": "log", "padding": 30, "nice": False}
    x = {"x": number("ms", scale=scale, axis=axis, title="milliseconds per text")}
    form = ".0%" if in_percent(summary.score) else ".3~g"
    y = {"y": number("test_score", scale={"zero": False}, axis={"format": form}, title="test score")}
    chosen = {"condition": {"test": "datum.outcome == 'chosen'", "value": SECOND}, "value": ACCENT}
    label = x | y | {"text": name("system")}
    layers = [
        mark("rule", x | {"y": number("test_low"), "y2": {"field": "test_high"}}, stroke=MUTED, opacity=0.6),
        mark("circle", x | y | {"fill": chosen}, size=90, opacity=1),
        # Each name is on the side that has room for it.
        mark("text", label, where="datum.slow", fill=INK, align="right", dx=-8, dy=-7, fontSize=12),
        mark("text", label, where="!datum.slow", fill=INK, align="left", dx=8, dy=-7, fontSize=12),
    ]
    return svg(data={"values": points}, layer=layers, width=560, height=240)


def history(scores: Sequence[tuple[str, float, float, float]], metric: str, title: str) -> str:
    """Draw the score of each run with its interval; `scores` are the name, the value and the ends of each."""
    # a score of a loss is its negative
    points = [{"run": run, "score": abs(value), "low": abs(low), "high": abs(high)} for run, value, low, high in scores]
    x = {"x": {"field": "run", "type": "ordinal", "sort": None, "axis": {"labels": False, "ticks": False}}}
    form = ".0%" if in_percent(metric) else ".3~g"
    y = {"y": number("score", scale={"zero": False}, axis={"format": form}, title=title)}
    layers = [
        mark("rule", x | {"y": number("low"), "y2": {"field": "high"}}, stroke=MUTED, opacity=0.6),
        mark("line", x | y, stroke=ACCENT),
        mark("circle", x | y, fill=ACCENT, size=60, opacity=1),
    ]
    return svg(data={"values": points}, layer=layers, width=560, height=200)


def number(field: str, **more: Any) -> Spec:
    """Return a quantitative channel."""
    return {"field": field, "type": "quantitative", **more}


def name(field: str, **more: Any) -> Spec:
    """Return a nominal channel."""
    return {"field": field, "type": "nominal", **more}


def mark(kind: str, encoding: Spec, where: str = "", **style: Any) -> Spec:
    """Return a layer of marks; `where` filters the rows."""
    chosen = {"transform": [{"filter": where}]} if where else {}
    return {**chosen, "mark": {"type": kind, **style}, "encoding": encoding}


def svg(theme: Mapping[str, Any] = THEME, **spec: Any) -> str:
    """Render a Vega-Lite specification with `theme` to SVG; loading of external resources is disabled."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec, config=dict(theme), allowed_base_urls=[]))
