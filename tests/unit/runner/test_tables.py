"""Tests of the tables of a sweep and of a drift check."""

from __future__ import annotations

import io
import math

from rich.console import Console

from epigram.monitoring.drift import Measure
from epigram.report.terminal import terminal_table
from epigram.runner.prefect.sweep import Result, results_table
from epigram.runner.retraining.drift import Drift, markdown_table
from epigram.runner.runs import run_page


def result(run: str, rate: float, **scores: object) -> Result:
    fields = {"dataset": "mr", "score": "accuracy", "system": "cnn", "test": (0.5, 0.4, 0.6), **scores}
    return Result(run=run, values={"train.learning_rate": rate, "a|b": None}, **fields)  # type: ignore[arg-type]


RESULTS = [
    result("s-1", 0.1, dev=0.7),
    result("s-2", 0.2, dev=0.8125),
    result("s-3", 0.3, code=65, message="bad row", system="", dataset=""),
    result("s-4", 0.4, dev=0.6, dataset="ced"),
]


def test_a_sweep_lists_its_runs_by_data_set_and_score_and_highlights_the_best_of_each() -> None:
    table = results_table(RESULTS)
    assert [heading.text for heading in table.headings] == ["run", "train.learning_rate", "a|b", "system", "dev"]
    assert [([cell.text for cell in line.cells], line.highlighted) for line in table.lines] == [
        (["s-4", "0.4", "None", "cnn", "60.0"], True),
        (["s-2", "0.2", "None", "cnn", "81.2"], True),
        (["s-1", "0.1", "None", "cnn", "70.0"], False),
        (["s-3", "0.3", "None", "", "–"], False),
    ]


def test_a_sweep_has_the_same_table_in_the_dashboard_and_on_the_terminal() -> None:
    table = results_table(RESULTS[:1])
    assert run_page.sweep(table, ["best"]) == (
        "# sweep\n\n"
        "| run | train.learning_rate | a\\|b | system | dev |\n"
        "| --- | --- | --- | --- | ---: |\n"
        "| s-1 | 0.1 | None | cnn | 70.0 |\n\n"
        "* best\n"
    )
    out = io.StringIO()
    Console(file=out, width=120).print(terminal_table(table))
    lines = [line.split() for line in out.getvalue().splitlines() if line.strip(" ─")]
    assert lines == [["run", "train.learning_rate", "a|b", "system", "dev"], ["s-1", "0.1", "None", "cnn", "70.0"]]


def test_a_drift_check_marks_the_measures_that_have_drifted() -> None:
    measures = (
        Measure(name="length", index=0.25, chance=0.0104, drifted=True),
        Measure(name="label", index=0.0, chance=math.inf, drifted=False),
    )
    assert markdown_table(Drift(champion=1, texts=9, labelled=0, threshold=0.2, measures=measures)) == (
        "| measure | index | expected by chance | drifted | description |\n"
        "| --- | ---: | ---: | --- | --- |\n"
        "| length | 0.250 | 0.010 | **yes** | characters of a text |\n"
        "| label | 0.000 | any |  | label |\n\n"
        "threshold: 0.2\n"
    )
