"""Differences between two revisions of a run's results: one HTML page that opens offline, without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from epigram.evaluation.comparison import formats
from epigram.report import charts
from epigram.report.page import DARK, report_environment


@dataclass(frozen=True, kw_only=True)
class Change:
    """Changed number or setting; a missing side is None, and `change` is None for values that are not numbers."""

    name: str
    old: Any
    new: Any
    change: float | None


def render_difference(
    old: str,
    new: str,
    metrics: Sequence[Change],
    params: Sequence[Change],
    plots: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return the whole page; `plots` maps names to Vega-Lite specifications with inline data."""
    env = report_environment()
    env.filters |= {"short": formats.short, "signed": formats.signed}
    return env.get_template("difference.html.j2").render(
        old=old,
        new=new,
        metrics=metrics,
        params=params,
        plots={name: Markup(charts.render_external(plot)) for name, plot in plots.items()},
        light=charts.COLOURS,
        dark=DARK,
    )
