"""HTML pages that open offline, without scripts: the report, and the differences between two revisions of results.

The report that `compare` writes is the same on every machine. A run adds its stages and the speeds that it measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from epigram.core.config_types import validate_as
from epigram.core.files import write_text
from epigram.core.limits import list_names
from epigram.core.templates import environment
from epigram.evaluation.comparison import formats
from epigram.evaluation.comparison.choices import three_choices
from epigram.evaluation.metrics.primary import is_loss, title_of
from epigram.evaluation.records.ensemble_record import EnsembleRecord
from epigram.evaluation.records.pruning_record import PruningRecord
from epigram.evaluation.records.results import Metrics, read_text
from epigram.evaluation.records.student_record import StudentRecord
from epigram.evaluation.records.summary import Summary
from epigram.report import charts
from epigram.report.classes import ConfusedPair, LabelTable, confused_pairs, label_table
from epigram.report.columns import comparison

RUN_MARK = "<!-- the run -->"  # `render_run` replaces it with the section of the run
DARK = {"ink": "#e4e8ee", "muted": "#98a3b3", "line": "#303844", "accent": "#7aa7f5", "second": "#f0995a"}


@dataclass(frozen=True)
class Scale:
    """Range of an interval bar; maps a score to a position on the bar."""

    low: float
    high: float

    @classmethod
    def around(cls, bounds: Sequence[tuple[float, float]]) -> Scale:
        """Return a scale that contains every (low, high) with a margin; its ends are multiples of 5%.

        If a score is negative, the scale ends at the lowest and the highest score.
        """
        low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
        if low < 0.0:
            return cls(low, high if high > low else low + 1.0)
        return cls(max(0.0, (low - 0.005) * 100 // 5 * 0.05), min(1.0, -((-high - 0.005) * 100 // 5) * 0.05))

    def position(self, score: float) -> float:
        """Return the position of a score in percent of the bar's width, from the left."""
        return round(100 * (score - self.low) / (self.high - self.low), 2)


@dataclass(frozen=True)
class Section:
    """Content of the page about one system."""

    metrics: Metrics
    pruning: PruningRecord | None
    scale: Scale  # scale of the slices' bars
    labels: LabelTable
    token_labels: LabelTable | None
    confusion: Markup | None
    pairs: list[ConfusedPair]
    reliability: Markup
    coverage: Markup | None
    depth: Markup | None
    thresholds: bool  # whether each label has a tuned threshold


def render(
    summary: Summary,
    systems: Mapping[str, Metrics],
    prunings: Mapping[str, PruningRecord | None],
    data_page: str,
    ensemble: EnsembleRecord | None = None,
    quality_page: str = "",
    students: Mapping[str, StudentRecord] | None = None,
) -> str:
    """Return the whole page; `data_page` and `quality_page` are trusted HTML fragments, everything else is escaped."""
    bounds = [(row.test_low, row.test_high) for row in summary.rows]
    drawn = [each for each, row in zip(bounds, summary.rows, strict=True) if not summary.labels_no_words(row)]
    return _render_template(
        "report.html.j2",
        summary,
        comparison=comparison(summary, "page"),
        scale=Scale.around(drawn or bounds),
        ensemble=ensemble,
        students=students or {},
        sections=[_section(systems[row.system], prunings.get(row.system)) for row in summary.rows],
        data_page=Markup(data_page),
        quality_page=Markup(quality_page),
        light=charts.COLOURS,
        dark=DARK,
        run_mark=Markup(RUN_MARK),
    )


def render_run(page: Path, out: Path, run: Mapping[str, Any]) -> None:
    """Write the page of a run to `out`: the page that `compare` wrote, with the run's stages and measured speeds.

    `run` has name, revision, wall_seconds, executed, stages (name → state, seconds) and the summary's fields, with the
    summary's rows under `systems`. Raises InputMissingError if `page` does not exist.
    """
    summary = validate_as(Summary, {**run, "rows": run["systems"]})
    picture = charts.speed(summary) if any(row.ms_per_text for row in summary.rows) else None
    section = _render_template(
        "run.html.j2",
        summary,
        run=run,
        speed=comparison(summary, "speed"),
        picture=Markup(picture) if picture else None,
        choices=three_choices(summary.rows),
    )
    write_text(out, read_text(page).replace(RUN_MARK, section, 1))


def report_environment() -> Environment:
    """Return the environment of the report's templates, with the formats as filters."""
    env = environment("epigram.report")
    names = ("percent", "floored", "level", "abbreviate", "milliseconds", "probability")
    env.filters |= {name: getattr(formats, name) for name in names} | {"names": list_names}
    return env


def _render_template(template: str, summary: Summary, **values: Any) -> str:
    env = report_environment()
    env.globals |= {
        "change": formats.change,
        "score_name": title_of(summary.score),
        "is_loss": is_loss(summary.score),
        "score": partial(formats.score_text, summary.score),
        "ends": partial(formats.ends_of, summary.score),
        "no_tokens": formats.NO_TOKENS,
    }
    return env.get_template(template).render(summary=summary, **values)


def _section(metrics: Metrics, pruning: PruningRecord | None) -> Section:
    bounds = [(part.score.low, part.score.high) for part in metrics.slices]
    tuned = metrics.decision == "threshold"
    cuts = zip(*(seed.thresholds for seed in metrics.seeds), strict=True) if tuned else ()
    thresholds = [formats.format_range(each) for each in cuts]  # one per label; empty if none are tuned
    return Section(
        metrics=metrics,
        pruning=pruning,
        scale=Scale.around([*bounds, (metrics.test_score.low, metrics.test_score.high)]),
        labels=label_table(metrics.classes, thresholds),
        token_labels=label_table(metrics.tokens.classes) if metrics.tokens else None,
        confusion=Markup(charts.confusion(metrics)) if metrics.confusion else None,
        pairs=confused_pairs(metrics.labels, metrics.confusion) if metrics.confusion else [],
        reliability=Markup(charts.reliability(metrics.reliability)),
        coverage=Markup(charts.coverage(metrics.coverage)) if metrics.coverage else None,
        depth=Markup(charts.depth(pruning)) if pruning and len(pruning.averaged()) > 1 else None,
        thresholds=bool(thresholds),
    )


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
    """Return the page of the differences; `plots` maps names to Vega-Lite specifications with inline data."""
    white = {"background": "white", "font": charts.FONT, "padding": 8}
    env = report_environment()
    env.filters |= {"short": formats.short, "signed": formats.signed}
    return env.get_template("difference.html.j2").render(
        old=old,
        new=new,
        metrics=metrics,
        params=params,
        plots={name: Markup(charts.svg(white, **plot)) for name, plot in plots.items()},
        light=charts.COLOURS,
        dark=DARK,
    )
