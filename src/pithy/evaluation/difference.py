"""What differs between two revisions of a run's results: one HTML page that opens offline, with no script inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from pithy.evaluation import formats, pictures
from pithy.evaluation.report import DARK, environment


@dataclass(frozen=True, kw_only=True)
class Change:
    """A number or a setting; None on the side where there is none, and for the change of what is no number."""

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
    """The whole page; `plots` are Vega-Lite specifications with their data inside, by name."""
    made = environment()
    made.filters |= {"short": formats.short, "signed": formats.signed}
    return made.get_template("difference.html.j2").render(
        old=old,
        new=new,
        metrics=metrics,
        params=params,
        plots={name: Markup(pictures.drawn(plot)) for name, plot in plots.items()},
        light=pictures.COLOURS,
        dark=DARK,
    )
