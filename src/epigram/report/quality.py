"""Section "Data quality" of the report: the first suspects and near duplicates, and the learning curve."""

from __future__ import annotations

from markupsafe import Markup

from epigram.evaluation.quality.data_quality import DataQuality, outlook
from epigram.report import charts
from epigram.report.page import report_environment

SHOWN = 20  # suspects, and pairs


def render_quality(quality: DataQuality, language: str) -> str:
    """Return an HTML fragment, in which every text and label is escaped."""
    env = report_environment()
    env.filters |= {"chart": lambda curve: Markup(charts.learning_curve(curve)), "outlook": outlook}
    files = {each.file for each in quality.suspects}.union(*({each.file, each.other_file} for each in quality.pairs))
    values = {"quality": quality, "shown": SHOWN, "language": language, "several_files": len(files) > 1}
    return env.get_template("quality.html.j2").render(values)
