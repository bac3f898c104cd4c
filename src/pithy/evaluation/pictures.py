"""The report's pictures: Altair charts drawn to static SVG, with no script inside.

The colours are those of the light page. Each has a name, by which the report's style sheet turns it into the
colour of the reader's theme.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import altair as alt

from pithy.evaluation.record import Bin, Metrics
from pithy.evaluation.summary import Row
from pithy.evaluation.tradeoff import Pruning

INK, MUTED, LINE, ACCENT, SECOND = "#1d232b", "#667080", "#dfe3e8", "#2a62c4", "#c2570c"
COLOURS = {"ink": INK, "muted": MUTED, "line": LINE, "accent": ACCENT, "second": SECOND}
FONT = "system-ui, sans-serif"
CELLS_WITH_NUMBERS = 20  # labels up to which a confusion matrix prints its shares


def confusion(metrics: Metrics) -> str:
    """Heat map of the confusion matrix: the share of a gold label's rows (y) that are predicted as a label (x)."""
    size = min(72, max(12, 420 // len(metrics.labels)))
    cells = [
        {"gold": gold, "predicted": said, "rows": count, "share": count / max(sum(counts), 1)}
        for gold, counts in zip(metrics.labels, metrics.confusion, strict=True)
        for said, count in zip(metrics.labels, counts, strict=True)
    ]
    angle = -90 if max(map(len, metrics.labels)) * 8 > size else 0
    base = alt.Chart(alt.InlineData(values=cells)).encode(
        x=alt.X("predicted:N", sort=metrics.labels, axis=_plain_axis(angle), title="predicted"),
        y=alt.Y("gold:N", sort=metrics.labels, axis=_plain_axis(0), title="gold"),
    )
    # Opacity, not colour, carries the share: it reads on a light and on a dark page.
    opacity = alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.04, 0.72]), legend=None)
    layers = [base.mark_rect(fill=ACCENT, stroke=None).encode(opacity=opacity)]
    if len(metrics.labels) <= CELLS_WITH_NUMBERS:
        shown = base.transform_filter("datum.share >= 0.005")
        layers.append(shown.mark_text(fill=INK, fontSize=11).encode(text=alt.Text("share:Q", format=".0%")))
    return _svg(alt.layer(*layers).properties(width=alt.Step(size), height=alt.Step(min(size, 44))))


def reliability(bins: Sequence[Bin]) -> str:
    """Accuracy against confidence; a point's area is the share of predictions in its bin."""
    total = sum(bin.count for bin in bins)
    points = [{"x": bin.confidence, "y": bin.accuracy, "share": bin.count / total} for bin in bins]
    scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(format="%", tickCount=5)
    x, y = alt.X("x:Q", scale=scale, axis=axis, title="confidence"), alt.Y("y:Q", scale=scale, axis=axis)
    diagonal = alt.Chart(alt.InlineData(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
    ideal = diagonal.mark_line(stroke=MUTED, strokeDash=[4, 4], strokeWidth=1).encode(x=x, y=y.title("share right"))
    base = alt.Chart(alt.InlineData(values=points)).encode(x=x, y=y.title("share right"))
    area = alt.Size("share:Q", scale=alt.Scale(domain=[0, 1], range=[20, 700]), legend=None)
    dots = base.mark_circle(fill=ACCENT, stroke=None, opacity=0.55).encode(size=area)
    return _svg((ideal + base.mark_line(stroke=ACCENT) + dots).properties(width=300, height=240))


def depth(pruning: Pruning) -> str:
    """Development accuracy (mean over the seeds) at each depth, the threshold, and the kept depths ringed."""
    points = [{**vars(point), "kept": point.depth in pruning.kept} for point in pruning.averaged()]
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X("depth:O", axis=alt.Axis(labelAngle=0), title="layers kept"),
        y=alt.Y("dev_accuracy:Q", scale=alt.Scale(zero=False), axis=alt.Axis(format=".1%"), title="dev accuracy"),
    )
    rings = base.transform_filter("datum.kept").mark_point(stroke=SECOND, size=220, strokeWidth=2, filled=False)
    layers: list[Any] = [base.mark_line(stroke=ACCENT), base.mark_circle(fill=ACCENT, size=60, opacity=1), rings]
    if pruning.threshold is not None:
        threshold = alt.Chart(alt.InlineData(values=[{"dev_accuracy": pruning.threshold}]))
        layers.append(threshold.mark_rule(stroke=MUTED, strokeDash=[4, 4]).encode(y="dev_accuracy:Q"))
    return _svg(alt.layer(*layers).properties(width=max(240, 40 * len(points)), height=200))


def speed(rows: Sequence[Row]) -> str:
    """Test score against milliseconds a text (logarithmic), one point a system with its interval."""
    timed = [(row, row.ms_per_text) for row in rows if row.ms_per_text]
    middle = sqrt(min(ms for _, ms in timed) * max(ms for _, ms in timed))
    keys = ("system", "test_score", "test_low", "test_high", "outcome")
    points = [{"ms": ms, "slow": ms > middle} | {key: getattr(row, key) for key in keys} for row, ms in timed]
    x = alt.X("ms:Q", scale=alt.Scale(type="log", padding=30, nice=False), title="milliseconds a text")
    axis = alt.Axis(format="~g", tickCount=5, grid=False)
    y = alt.Y("test_score:Q", scale=alt.Scale(zero=False), axis=alt.Axis(format=".0%"), title="test score")
    base = alt.Chart(alt.InlineData(values=points)).encode(x=x.axis(axis), y=y)
    bars = base.mark_rule(stroke=MUTED, opacity=0.6).encode(y=alt.Y("test_low:Q"), y2="test_high:Q")
    colour = alt.condition("datum.outcome == 'chosen'", alt.value(SECOND), alt.value(ACCENT))
    dots = base.mark_circle(size=90, opacity=1).encode(fill=colour)
    # Names stand on the side where there is room.
    left = base.transform_filter("datum.slow").mark_text(fill=INK, align="right", dx=-8, dy=-7, fontSize=12)
    right = base.transform_filter("!datum.slow").mark_text(fill=INK, align="left", dx=8, dy=-7, fontSize=12)
    names = left.encode(text="system:N") + right.encode(text="system:N")
    return _svg((bars + dots + names).properties(width=560, height=240))


def _plain_axis(angle: int) -> alt.Axis:
    """Nothing but labels."""
    return alt.Axis(labelAngle=angle, labelLimit=110, labelPadding=6, domain=False, ticks=False)


def drawn(plot: Mapping[str, Any]) -> str:
    """A Vega-Lite specification as it is, drawn on white; it can fetch nothing."""
    import vl_convert

    config = {"background": "white", "font": FONT, "padding": 8}
    return str(vl_convert.vegalite_to_svg(dict(plot), config=config, allowed_base_urls=[]))


def _svg(chart: Any) -> str:
    import vl_convert

    themed = chart.configure(background="transparent", font=FONT, padding=4).configure_view(stroke=None)
    axis = {"labelColor": INK, "titleColor": MUTED, "gridColor": LINE, "domainColor": LINE, "tickColor": LINE}
    themed = themed.configure_axis(
        **axis, labelFontSize=12, titleFontSize=12, titleFontWeight="normal", titlePadding=12
    )
    return str(vl_convert.vegalite_to_svg(themed.to_json()))
