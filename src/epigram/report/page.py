"""HTML page of the report, which opens offline.

The report that `compare` writes is the same on every machine. A run replaces some regions of it: it adds its date,
machine and stages, and the speeds that it measured. A region is marked by comments, which no text of the data can
contain, because these are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup, escape

from epigram.core.config_types import validate_as
from epigram.core.files import write_text
from epigram.core.limits import list_names
from epigram.core.marked_text import mark_words
from epigram.core.masking import masked_parts
from epigram.core.templates import environment
from epigram.evaluation.comparison import formats
from epigram.evaluation.comparison.choices import three_choices
from epigram.evaluation.metrics.primary import in_percent, title_of
from epigram.evaluation.records.ensemble_record import EnsembleRecord
from epigram.evaluation.records.pruning_record import PruningRecord
from epigram.evaluation.records.results import Metrics, read_text
from epigram.evaluation.records.student_record import StudentRecord
from epigram.evaluation.records.summary import Summary
from epigram.report import charts
from epigram.report.classes import ConfusedPair, LabelTable, confused_pairs, label_table
from epigram.report.columns import comparison
from epigram.report.first_screen import Findings, first_screen

REGION = re.compile(r"<!-- (\w+) -->.*?<!-- /\1 -->", re.DOTALL)
MODEL = '<span class="model">MODEL</span>'  # the path of the model in commands; `render_run` writes the run's
DARK = {"ink": "#e4e8ee", "muted": "#98a3b3", "line": "#303844", "accent": "#7aa7f5", "second": "#f0995a"}


@dataclass(frozen=True)
class Scale:
    """Range of an interval bar; maps a score to a position on the bar."""

    low: float
    high: float

    @classmethod
    def around(cls, bounds: Sequence[tuple[float, float]]) -> Scale:
        """Return a scale that contains every (low, high) with a margin; its ends are multiples of 5%.

        If a score is negative or above 1, the scale ends at the lowest and the highest score.
        """
        low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
        if low < 0.0 or high > 1.0:
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
    findings: Findings | None = None,
    settings: str = "",
) -> str:
    """Return the whole page; `data_page` and `quality_page` are trusted HTML fragments, everything else is escaped.

    `settings` are of the chosen system, as YAML.
    """
    return (
        _environment(summary)
        .get_template("report.html.j2")
        .render(
            comparison=comparison(summary, "page"),
            scale=_scale(summary),
            chosen=summary.chosen,
            about=systems[summary.chosen_system].about,
            first=first_screen(summary, systems[summary.chosen_system], findings or Findings()),
            model=Markup(MODEL),
            ensemble=ensemble,
            students=students or {},
            settings=settings,
            sections=[_section(systems[row.system], prunings.get(row.system)) for row in summary.rows],
            data_page=Markup(data_page),
            quality_page=Markup(quality_page),
            light=charts.COLOURS,
            dark=DARK,
        )
    )


def render_run(page: Path, out: Path, run: Mapping[str, Any]) -> None:
    """Write the page of a run to `out`: the page that `compare` wrote, with the run's stages and measured speeds.

    `run` has name, finished, machine, model, revision, wall_seconds, executed, stages (name → state, seconds) and the
    summary's fields, with the summary's rows under `systems`. `model` is the path to predict with, and
    `previous`, if there is one, the IndexedRun of the run before. Raises InputMissingError if `page` does not exist.
    """
    summary = validate_as(Summary, {**run, "rows": run["systems"]})
    timed = [row for row in summary.rows if row.ms_per_text]
    picture = charts.speed(summary) if len(timed) > 1 else None
    env = _environment(summary)
    drawn = {"picture": Markup(picture) if picture else None, "choices": three_choices(summary.rows)}
    parts: Any = env.get_template("parts.html.j2").make_module()
    about: Any = env.get_template("run.html.j2").make_module(drawn)
    regions = {
        "facts": about.facts(run),
        "costs": parts.costs(summary.chosen),
        "comparison": parts.comparison_table(comparison(summary, "page"), _scale(summary)),
        "run": about.run_section(run, comparison(summary, "speed")),
    }
    html = REGION.sub(lambda region: str(regions[region[1]]), read_text(page))
    write_text(out, html.replace(MODEL, escape(run["model"])))


def _scale(summary: Summary) -> Scale:
    """Return the scale of the comparison's intervals."""
    bounds = [(row.test_low, row.test_high) for row in summary.rows]
    drawn = [each for each, row in zip(bounds, summary.rows, strict=True) if not summary.labels_no_words(row)]
    return Scale.around(drawn or bounds)


def report_environment() -> Environment:
    """Return the environment of the report's templates, with the formats as filters."""
    env = environment("epigram.report")
    names = ("percent", "floored", "level", "abbreviate", "milliseconds", "probability")
    env.filters |= {name: getattr(formats, name) for name in names} | {"names": list_names}
    env.filters |= {"marked": mark_words, "masked_parts": masked_parts}
    return env


def _environment(summary: Summary) -> Environment:
    """Return the environment of the report's templates, with what all of them show of the comparison."""
    env = report_environment()
    env.globals |= {
        "summary": summary,
        "change": formats.change,
        "score_name": title_of(summary.score),
        "in_percent": in_percent(summary.score),
        "score": partial(formats.score_text, summary.score),
        "ends": partial(formats.ends_of, summary.score),
        "no_tokens": formats.NO_TOKENS,
    }
    return env


def _section(metrics: Metrics, pruning: PruningRecord | None) -> Section:
    bounds = [(part.score.low, part.score.high) for part in metrics.slices]
    tuned = metrics.decision == "threshold"
    cuts = zip(*(seed.thresholds for seed in metrics.seeds), strict=True) if tuned else ()
    large = metrics.confusion and len(metrics.labels) > charts.CELLS_WITH_NUMBERS
    thresholds = [formats.format_range(each) for each in cuts]  # one per label; empty if none are tuned
    return Section(
        metrics=metrics,
        pruning=pruning,
        scale=Scale.around([*bounds, (metrics.test_score.low, metrics.test_score.high)]),
        labels=label_table(metrics.classes, thresholds),
        token_labels=label_table(metrics.tokens.classes) if metrics.tokens else None,
        confusion=Markup(charts.confusion(metrics)) if metrics.confusion else None,
        pairs=confused_pairs(metrics.labels, metrics.confusion) if large else [],
        reliability=Markup(charts.reliability(metrics.reliability)),
        coverage=Markup(charts.coverage(metrics.coverage)) if metrics.coverage else None,
        depth=Markup(charts.depth(pruning)) if pruning and len(pruning.averaged()) > 1 else None,
        thresholds=bool(thresholds),
    )
