"""Section "Data quality" of the report: the first suspects and near duplicates, and the learning curve."""

from __future__ import annotations

from markupsafe import Markup

from epigram.evaluation.comparison.formats import percent
from epigram.evaluation.quality.data_quality import NEAR_DUPLICATES, DataQuality
from epigram.evaluation.quality.learning_curve import LearningCurve
from epigram.report import charts
from epigram.report.page import report_environment
from epigram.text.dataset.language import Language

SHOWN = 20  # suspects, and pairs


def render_quality(quality: DataQuality, language: Language) -> str:
    """Return an HTML fragment, in which every text and label is escaped."""
    env = report_environment()
    env.filters |= {"chart": lambda curve: Markup(charts.learning_curve(curve)), "outlook": outlook}
    return env.get_template("quality.html.j2").render(quality=quality, shown=SHOWN, language=language)


def describe_quality(quality: DataQuality) -> str:
    """Return what a log says about the findings."""
    if quality.reason and not quality.compared:
        return quality.reason
    counts = f"{len(quality.suspects):,} suspected labels in {quality.judged:,} rows"
    near = f"{quality.pair_count:,} pairs of near duplicates with different labels"
    if quality.pair_count > len(quality.pairs):
        near += f" ({NEAR_DUPLICATES} has the first {len(quality.pairs):,})"
    return "; ".join([counts, near, *([outlook(quality.curve)] if quality.curve else [])])


def outlook(curve: LearningCurve) -> str:
    """Return what to expect of twice the training rows, as a sentence."""
    doubled = curve.doubled
    interval = f"95% interval {percent(doubled.low)} to {percent(doubled.high)}"
    change = f"accuracy {percent(curve.now)}% now, {percent(doubled.value)}% with twice the rows ({interval})"
    saying = {
        "helps": "More labels are expected to help",
        "unclear": "Whether more labels would help is unclear",
        "flat": "More labels are not expected to help",
    }[curve.outlook]
    return f"{saying}: {change}"
