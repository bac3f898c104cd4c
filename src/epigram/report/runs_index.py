"""Page runs/index.html: all complete runs of a project, newest first, with their chosen systems and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from epigram.core.config_types import validate_as
from epigram.evaluation.comparison.formats import ends_of, score_text
from epigram.evaluation.metrics.primary import title_of
from epigram.evaluation.records.summary import Summary
from epigram.report import charts
from epigram.report.page import DARK, report_environment


@dataclass(frozen=True)
class IndexedRun:
    """One line of the index; `value`, `low` and `high` are of the chosen system on the test set."""

    name: str
    finished: str
    dataset: str
    system: str
    metric: str
    value: float
    low: float
    high: float

    @classmethod
    def of(cls, summary: dict[str, Any]) -> IndexedRun:
        """Return the line of a run from its summary.json. Raises ParameterError if fields are missing."""
        found = validate_as(Summary, {**summary, "rows": summary.get("systems")})
        row = found.chosen
        about = summary["name"], summary.get("finished", ""), found.dataset, row.system, found.score
        return cls(*about, row.test_score, row.test_low, row.test_high)

    @property
    def score(self) -> str:
        """Name and value of the score."""
        return f"{title_of(self.metric)} {score_text(self.metric, self.value, '%')}"

    @property
    def interval(self) -> str:
        """Ends of the interval."""
        return " to ".join(ends_of(self.metric, self.low, self.high))


def render_index(runs: Sequence[IndexedRun], champions: Sequence[IndexedRun] = ()) -> str:
    """Return the page; `runs` are in the order of their ends, and `champions`, scored on dev, of their promotions."""
    return (
        report_environment()
        .get_template("runs.html.j2")
        .render(
            runs=runs[::-1],
            newest=runs[-1],
            picture=_history(runs, "test score"),
            champions=champions[::-1],
            champions_picture=_history(champions, "dev score"),
            light=charts.COLOURS,
            dark=DARK,
        )
    )


def _history(runs: Sequence[IndexedRun], title: str) -> Markup | None:
    """Return the chart of the runs with the data set and the metric of the newest one, if there are two or more."""
    alike = [run for run in runs if (run.dataset, run.metric) == (runs[-1].dataset, runs[-1].metric)]
    if len(alike) < 2:
        return None
    scores = [(f"{number}. {run.name}", run.value, run.low, run.high) for number, run in enumerate(alike, 1)]
    return Markup(charts.history(scores, runs[-1].metric, title))
