"""Tests of students whose development score is not their own: they are listed and measured, but not judged by it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from epigram.core.config_types import validate_as
from epigram.evaluation.comparison.choices import pareto_front, three_choices
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.records.results import Evaluated
from epigram.evaluation.records.student_record import StudentRecord, Unranked
from epigram.evaluation.records.summary import Corpus, Summary, read_summary
from epigram.report.columns import comparison, comparison_markdown
from epigram.report.page import render_run
from epigram.stages import compare as stage
from tests.support.evaluation_samples import corpus, cost, folders, system

NOTE = (
    "Not ranked: small. Without a dev split, the dev score of a student is that of models that learned labels alone, "
    "without the teacher."
)


def evaluations(small_wrong: int = 46) -> list[Evaluated]:
    """Return `big` and `mid`, which are tied, `bad`, and the student `small`, which is good on test."""
    wrong = {"big": 14, "mid": 16, "bad": 60, "small": small_wrong}
    return [
        system(name, [set(range(count))], [set(range(15 if name == "small" else count))], price=cost(flops=5e6))
        for name, count in wrong.items()
    ]


def compared(small_wrong: int = 46) -> Summary:
    return compare(validate_as(Corpus, corpus()), evaluations(small_wrong), 0.05, unranked={"small": "folds"})


@pytest.mark.parametrize("small_wrong", [0, 15, 46])
def test_the_other_systems_are_ranked_as_if_there_were_no_student(small_wrong: int) -> None:
    alone = compare(validate_as(Corpus, corpus()), evaluations()[:3], 0.05)
    found = compared(small_wrong)
    assert [(row.system, row.outcome) for row in found.rows] == [
        ("big", "chosen"),
        ("mid", "tie"),
        ("bad", "worse"),
        ("small", "unranked"),
    ]
    assert [row.p_dev for row in found.rows] == [*(row.p_dev for row in alone.rows), None]
    assert (found.verdict, found.optimism, found.cheapest_tied) == (alone.verdict, alone.optimism, alone.cheapest_tied)


def test_the_test_score_of_the_student_is_compared_with_the_chosen_one() -> None:
    row = compared().rows[-1]
    assert (row.test_score, row.test_outcome) == (pytest.approx(0.85), "tie")


def test_without_a_test_split_the_test_score_is_not_its_own_either() -> None:
    few = validate_as(Corpus, {**corpus(), "rows": {"train": 100, "dev": 0, "test": 0}})
    found = compare(few, evaluations(0), 0.05, unranked={"small": "folds"})
    alone = compare(few, evaluations(0)[:3], 0.05)
    assert found.rows[-1].test_outcome is None
    assert found.verdict == alone.verdict
    assert "the dev and test scores of a student are those of" in found.notes[-1]


def test_the_front_and_the_choices_leave_the_student_out() -> None:
    """The student has the fewest megabytes and milliseconds, and in the second case also the highest score."""
    for small_wrong in (46, 0):
        times = {"big": 9.0, "mid": 0.8, "bad": 0.9, "small": 0.1}
        rows = [
            replace(row, ms_per_text=times[row.system], megabytes=times[row.system])
            for row in compared(small_wrong).rows
        ]
        assert pareto_front(rows) == {"big", "mid"}
        assert [each.system for each in three_choices(rows)] == ["big", "mid", "mid"]


def test_every_table_says_that_the_student_is_not_ranked() -> None:
    summary = compared()
    assert summary.notes[-1] == NOTE and f"* {NOTE}" in comparison_markdown(summary)
    shown = {}
    for where in ("page", "file", "terminal", "dashboard"):
        table = comparison(summary, where)
        shown[where] = {head.text: cell.text for head, cell in zip(table.headings, table.lines[-1].cells, strict=True)}
    assert shown["page"]["dev"] == shown["terminal"]["dev"] == shown["dashboard"]["dev accuracy"] == "–"
    assert shown["page"]["vs. best,\ndev"] == shown["file"]["outcome"] == shown["dashboard"][""] == "not ranked"
    assert shown["page"]["vs. chosen,\ntest"] == "= tie"


def test_the_page_of_a_run_says_who_is_left_out_of_the_choices(tmp_path: Path) -> None:
    summary = asdict(compared())
    rows = [{**row, "ms_per_text": 1.0, "megabytes": 1.0} for row in summary.pop("rows")]
    about = {"name": "first", "revision": "0123", "wall_seconds": 1.0, "executed": 1, "stages": {}, "systems": rows}
    about |= {"finished": "2026-11-28", "machine": "a CPU", "model": "model"}
    (tmp_path / "page.html").write_text("<!-- run --><!-- /run -->")
    render_run(tmp_path / "page.html", tmp_path / "report.html", {**summary, **about})
    text = (tmp_path / "report.html").read_text()
    assert "Left out, because its development score is not that of the student: small." in text


def test_a_student_of_other_data_is_unranked_for_another_reason() -> None:
    unranked: dict[str, Unranked] = {"small": "data", "mid": "folds"}
    found = compare(validate_as(Corpus, corpus()), evaluations(), 0.05, unranked=unranked)
    assert found.notes[-2:] == [
        NOTE.replace("small", "mid"),
        "Not ranked: small. The teacher was trained on other data, which may include texts of dev and test.",
    ]


@pytest.mark.parametrize(("unranked", "chosen", "numbers"), [("folds", "big", 3), ("data", "big", 3), ("", "small", 4)])
def test_the_stage_ranks_students_whose_development_score_is_their_own(
    unranked: Unranked, chosen: str, numbers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_stage(evaluations(0), ["small"], unranked, tmp_path, monkeypatch)
    assert read_summary(tmp_path / "report/summary.json").chosen_system == chosen
    found = json.loads((tmp_path / "report/metrics.json").read_text())["systems"]
    assert len([each for each in found.values() if "dev_score" in each]) == numbers


def test_a_run_of_unranked_students_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_stage(evaluations()[2:], ["bad", "small"], "folds", tmp_path, monkeypatch)
    assert ended.value.code == 64
    assert "every system has a teacher, and none of them can be ranked" in capsys.readouterr().err


def run_stage(
    systems: list[Evaluated], students: list[str], unranked: Unranked, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the stage `compare` in `folder` on `systems`, of which some are `students`."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["compare", *folders(folder, systems)])
    for name in students:
        record = StudentRecord(
            teacher="runs/a/model", labelled=9, label_weight=1, unlabelled=9, held_out=0, known=0, unranked=unranked
        )
        record.write(folder / "pruned" / name)
    stage.main()
