"""Tests of compare: selection on dev scores, ties by significance, and output written whole or not at all."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from rich.console import Console

from epigram.core.config_types import validate_as
from epigram.evaluation.comparison.choices import pareto_front, three_choices
from epigram.evaluation.comparison.choose_system import decide
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.comparison.formats import abbreviate
from epigram.evaluation.comparison.scored_system import scored_system
from epigram.evaluation.records.results import Evaluated
from epigram.evaluation.records.summary import Corpus, Row, Summary, read_summary
from epigram.evaluation.settings import Preference
from epigram.report.columns import comparison_markdown
from epigram.report.terminal import comparison_table
from epigram.stages import compare as stage_module
from tests.support.evaluation_samples import corpus, cost, folders, system


def compared(*evaluations: Evaluated, alpha: float = 0.05, prefer: Preference = "best") -> Summary:
    return compare(validate_as(Corpus, corpus()), evaluations, alpha, prefer)


def wrong(count: int, seeds: int = 1) -> list[set[int]]:
    return [set(range(count))] * seeds


def printed(summary: Summary, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(comparison_table(summary))
    return out.getvalue()


@pytest.fixture
def four() -> Summary:
    """Compare `good` (best on dev), `dear` (tied, costs more), `close` (tied, cheaper) and `bad` (worse)."""
    return compared(
        system("bad", wrong(40, 3), wrong(40, 3), price=cost(flops=1e3)),
        system("dear", wrong(2, 3), wrong(2, 3), price=cost(flops=9e6)),
        system("close", wrong(3, 3), wrong(1, 3), price=cost(flops=5e3)),
        system("good", wrong(1, 3), wrong(3, 3), price=cost(flops=2e6)),
    )


def test_what_a_system_costs_is_that_of_one_of_its_seeds():
    made = system("one", wrong(1, 2), wrong(1, 2))
    costs = [cost(parameters=900, flops=9e6, depth=5), cost(parameters=500, flops=5e6, depth=3)]
    seeds = [replace(seed, cost=each) for seed, each in zip(made.metrics.seeds, costs, strict=True)]
    (row,) = compared(replace(made, metrics=replace(made.metrics, seeds=seeds))).rows
    assert (row.parameters_pruned, row.depth_pruned, row.flops) == (500, 3, 5e6)


def test_a_clear_win_is_said():
    summary = compared(system("good", wrong(1), wrong(1)), system("bad", wrong(40), wrong(40)))
    assert summary.cheapest_tied is None
    assert "significantly better than every other system" in summary.verdict


@pytest.mark.parametrize("order", [1, -1])
def test_the_same_scores_in_another_order_of_the_seeds_are_an_exact_tie(order: int):
    big, small = cost(parameters=900), cost(parameters=100)
    seeds = [set(range(count)) for count in (2, 7, 11)][::order]  # the floating-point mean depends on the order
    summary = compared(system("a_big", seeds, seeds, price=big), system("small", seeds[::-1], seeds, price=small))
    assert summary.chosen_system == "small"


def test_few_seeds_are_noted():
    few = compared(system("a", wrong(1), wrong(1)), system("b", wrong(2), wrong(2)))
    enough = compared(system("a", wrong(1, 5), wrong(1, 5)), system("b", wrong(2, 5), wrong(2, 5)))
    assert any("one seed" in note for note in few.notes)
    assert enough.notes == ["A stratified dev split was cut."]


def test_the_terminal_table_fits_and_shows_every_column(four):
    for width in (80, 120):
        text = printed(four, width)
        assert max(map(len, text.splitlines())) <= width
        for part in (
            "dev",
            "test, 95% interval",
            "macro-F1",
            "parameters",
            "ms/text",
            "▸ good",
            "= close",
            "2 k → 1 k",
        ):
            assert part in text


def test_systems_that_label_words_have_a_column_more():
    words = [set(range(30))]
    summary = compared(
        system("tagger", wrong(1), wrong(1), labelled=True, words_wrong=words),
        system("svm", wrong(2), wrong(2), labelled=True),
    )
    assert summary.score == "accuracy"
    assert 0 < summary.rows[0].token_f1 < 1
    assert (summary.rows[1].token_f1, summary.rows[1].token_f05, summary.rows[1].span_f1) == (None, None, None)
    text = printed(summary, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "token F1" in text
    assert "| token F1 |" in comparison_markdown(summary).replace("test ", "")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    evaluations = [
        system("svm", [{1, 2, 3}, {1}], [{1}, {1}], price=cost(depth=None)),
        system("cnn", wrong(40, 2), wrong(40, 2)),
    ]
    return folders(tmp_path, evaluations)


def main(arguments: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["compare", *arguments])
        stage_module.main()


def failure(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    return int(exit.value.code or 0), capsys.readouterr().err


def test_the_stage_writes_summary_table_report_and_the_chosen_model(stage):
    main(stage)
    out = Path(stage[-1])
    left = "chosen comparison.md learning_curve.json metrics.json near_duplicates.csv plots report.html summary.json"
    assert " ".join(sorted(path.name for path in out.iterdir())) == f"{left} suspects.csv"
    assert json.loads((out / "chosen" / "config.json").read_text())["seed"] == 1
    summary = json.loads((out / "summary.json").read_text())
    assert summary["rows"][0]["ms_per_text"] is None  # only a run measures speed
    wanted = {"system", "seeds", "dev_accuracy", "test_accuracy", "test_low", "test_high", "macro_f1", "parameters"}
    assert wanted | {"parameters_pruned"} <= summary["rows"][0].keys()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<h2>Data: sample</h2>" in page and "no labels are examined" in page
    assert 'href="#quality"' in page and 'id="quality"' in page


def test_a_summary_with_the_speeds_of_a_run_shows_them(four):
    timed = replace(four, rows=[replace(row, ms_per_text=1.25, texts_per_second=800.0) for row in four.rows])
    assert "1.25" in printed(timed, 80)
    assert "1.25" in comparison_markdown(timed)


@pytest.mark.parametrize(("alpha", "outcome"), [(0.05, "worse"), (0.02, "tie")])
def test_the_stage_judges_ties_at_the_alpha_of_the_settings(alpha, outcome, tmp_path, monkeypatch):
    """Six dev rows are wrong for one system only: McNemar's p is 2 / 2⁶ = 0.031."""
    monkeypatch.chdir(tmp_path)
    arguments = folders(tmp_path, [system("good", wrong(0), wrong(0)), system("close", wrong(6), wrong(0))])
    params = yaml.safe_load(Path("params.yaml").read_text())
    Path("params.yaml").write_text(yaml.safe_dump({**params, "compare": {"alpha": alpha}}))
    main(arguments)
    _, row = read_summary(Path(arguments[-1]) / "summary.json").rows
    assert row.p_dev == pytest.approx(2 / 2**6)
    assert (row.system, row.outcome) == ("close", outcome)


@pytest.mark.parametrize(("prefer", "chosen"), [("cheapest", "cheap"), ("best", "dear"), (None, "cheap")])
def test_the_stage_prefers_what_the_settings_prefer(prefer, chosen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dear, cheap = cost(flops=8e6), cost(flops=2e6)
    systems = [system("dear", wrong(0), wrong(0), price=dear), system("cheap", wrong(3), wrong(0), price=cheap)]
    arguments = folders(tmp_path, systems)
    params = yaml.safe_load(Path("params.yaml").read_text())
    settings = {"compare": {"alpha": 0.05} | ({"prefer": prefer} if prefer else {})}
    Path("params.yaml").write_text(yaml.safe_dump({**params, **settings}))
    main(arguments)
    assert read_summary(Path(arguments[-1]) / "summary.json").chosen_system == chosen


def test_the_spread_over_the_seeds_is_the_standard_deviation_of_each_split():
    dev, test = ([set(range(count)) for count in counts] for counts in ((2, 7, 12), (20, 22, 24)))
    (row,) = compared(system("one", dev, test)).rows
    assert (row.dev_std, row.test_std) == (pytest.approx(0.05), pytest.approx(0.02))
    assert (row.dev_score, row.test_score) == (pytest.approx(0.93), pytest.approx(0.78))
    assert 0.65 < row.test_low < 0.78 < row.test_high < 0.90  # the interval of dev is higher


def test_each_split_has_its_own_p_value_in_markdown():
    summary = compared(system("good", wrong(1), wrong(9)), system("bad", wrong(40), wrong(9)))
    heads, _, _, cells = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in comparison_markdown(summary).splitlines()
        if line.startswith("|")
    )
    said = dict(zip(heads, cells, strict=True))
    assert (said["system"], said["p (dev)"], float(said["p (test)"])) == ("bad", "< 0.001", 1.0)


def test_systems_that_the_run_does_not_name_are_left_out(stage, tmp_path):
    params = json.loads(Path("params.yaml").read_text())
    del params["systems"]["svm"]
    Path("params.yaml").write_text(json.dumps(params))
    main(stage)
    assert [row.system for row in read_summary(tmp_path / "report" / "summary.json").rows] == ["cnn"]


def test_the_depth_picture_comes_from_pruning_json(stage, tmp_path):
    points = [{"depth": d, "classifier_score": d / 10, "parameters": d, "flops": d} for d in (1, 2, 3)]
    seed = {"seed": 0, "layered": True, "reason": "", "threshold": 0.2, "depth_full": 3, "depth": 2}
    pruning = {"seeds": [{**seed, "accepted": True, "tradeoff": points}]}
    (tmp_path / "pruned" / "cnn" / "pruning.json").write_text(json.dumps(pruning))
    main(stage)
    assert "layers kept" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")


def test_a_missing_evaluation_is_named(stage, capsys):
    (Path(stage[2]) / "cnn" / "metrics.json").unlink()
    code, error = failure(stage, capsys)
    assert code == 66
    assert "cnn/metrics.json is missing" in error


def test_a_missing_model_leaves_the_old_report_alone(stage, capsys, tmp_path):
    main(stage)
    before = (tmp_path / "report" / "report.html").read_bytes()
    for file in (tmp_path / "pruned" / "svm" / "seed-1").iterdir():
        file.unlink()
    (tmp_path / "pruned" / "svm" / "seed-1").rmdir()
    code, error = failure(stage, capsys)
    assert (code, "svm/seed-1" in error) == (66, True)
    assert (tmp_path / "report" / "report.html").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_systems_evaluated_on_different_rows_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = folders(tmp_path, [system("a", wrong(1), wrong(1)), system("b", wrong(1), wrong(1), rows=90)])
    code, error = failure(arguments, capsys)
    assert code == 65
    assert error.startswith("error: a and b were evaluated on different")


def test_systems_evaluated_on_different_words_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    other = system("b", wrong(1), wrong(1), labelled=True)
    words = replace(other.test.words, labels=np.zeros(300, np.uint8))
    other = replace(other, test=replace(other.test, words=words))
    code, error = failure(folders(tmp_path, [system("a", wrong(1), wrong(1), labelled=True), other]), capsys)
    assert code == 65
    assert "different test_word_labels" in error


def test_an_amount_just_below_a_unit_is_rounded_into_it():
    told = {999: "999", 999.6: "1 k", 1_234: "1.23 k", 999_499: "999 k", 999_999: "1 M", 999_999_999: "1 G", 0: "0"}
    assert {number: abbreviate(number) for number in told} == told


@pytest.mark.parametrize(("others", "named"), [(6, True), (7, False)])
def test_up_to_six_ties_are_named(others, named):
    good, *ties = (system(f"s{i}", wrong(5), wrong(5)) for i in range(others + 1))
    verdict = compared(good, *ties).verdict
    scored = " and ".join([", ".join(f"s{i} (95.0%)" for i in range(1, 6)), "s6 (95.0%)"])
    assert (f"100 development texts cannot separate it from {scored}, which are not cheaper." in verdict) == named
    assert (f"cannot separate it from 7 of the {others} others" in verdict) != named


def test_the_chosen_and_the_best_system_are_no_others():
    """Nine systems are tied, and one that is much cheaper than the best is chosen: seven are left."""
    cheap = system("cheap", wrong(5), wrong(5), price=cost(parameters=9_000, flops=1e6))
    rest = [system(f"s{i}", wrong(5), wrong(5), price=cost(parameters=7_000 + i, flops=1e9)) for i in range(8)]
    assert "cannot separate s0 from 7 of the 7 others" in compared(cheap, *rest, prefer="cheapest").verdict


ABOUT = {key: value for key, value in corpus().items() if key not in {"dev_in_train", "test_in_train"}}


def rows(**costs: tuple[float, float | None, float | None, str]) -> list[Row]:
    """Return rows with a development score, ms per text, MB and outcome for each name."""
    one = compare(Corpus(**ABOUT), [system("a", [{1}], [{1}], price=cost())], 0.05).rows[0]  # type: ignore[arg-type]
    return [
        replace(one, system=name, dev_score=score, ms_per_text=ms, megabytes=mb, outcome=outcome)
        for name, (score, ms, mb, outcome) in costs.items()
    ]


SYSTEMS = rows(
    slow=(0.95, 20.0, 90.0, "chosen"),
    fine=(0.94, 5.0, 90.0, "tie"),
    fast=(0.90, 0.3, 2.0, "worse"),
    dull=(0.89, 0.4, 2.0, "worse"),  # beaten by `fast`
    small=(0.93, 6.0, 10.0, "tie"),
    tiny=(0.60, 0.9, 0.1, "worse"),
)


def test_the_front_has_the_systems_that_no_other_beats() -> None:
    assert pareto_front(SYSTEMS) == {"slow", "fine", "fast", "small", "tiny"}


def test_equal_systems_are_both_on_the_front() -> None:
    assert pareto_front(rows(a=(0.9, 1.0, 1.0, "chosen"), b=(0.9, 1.0, 1.0, "tie"))) == {"a", "b"}


def test_what_was_not_measured_is_left_out() -> None:
    assert pareto_front(rows(a=(0.9, None, 1.0, "chosen"), b=(0.8, 1.0, 1.0, "tie"), c=(0.9, 1.0, None, "tie"))) == {
        "b"
    }
    assert three_choices(rows(a=(0.9, None, 1.0, "chosen"))) == []


def test_the_choices_are_the_best_the_best_fast_one_and_the_smallest_of_the_ties() -> None:
    assert [each.system for each in three_choices(SYSTEMS)] == ["slow", "fast", "small"]


def test_no_choice_is_slow_where_none_is_fast_and_the_baseline_without_parameters_is_none() -> None:
    found = rows(random=(0.5, 0.01, 0.01, "tie"), deep=(0.9, 3.0, 5.0, "chosen"))
    found[0] = replace(found[0], parameters=0)
    assert [(each.title, each.system) for each in three_choices(found)] == [
        ("best", "deep"),
        ("smallest of the best and its ties", "deep"),
    ]


@pytest.mark.parametrize(
    ("expected", "chosen", "why"),
    [
        ({}, "counts", "it has the best development accuracy"),
        ({"counts": 57.3, "encoder": 70.1}, "encoder", "On other data with as many texts it is the better one"),
        ({"counts": 70.1, "encoder": 57.3}, "counts", "it has the best development accuracy"),
        ({"counts": 57.3}, "counts", "it has the best development accuracy"),  # nothing is known of the other one
        ({"counts": 57.3, "encoder": 70.1, "far": 99.0}, "encoder", "On other data"),  # `far` is not tied
    ],
)
def test_of_tied_systems_one_that_experience_ranks_lower_is_not_chosen(
    expected: dict[str, float], chosen: str, why: str
) -> None:
    systems = [system(name, wrong(count), wrong(count)) for name, count in [("counts", 5), ("encoder", 7), ("far", 60)]]
    summary = compare(validate_as(Corpus, corpus()), systems, 0.05, "best", expected=expected)
    assert summary.chosen_system == chosen and why in summary.verdict


def test_experience_does_not_outweigh_a_significant_difference() -> None:
    systems = [system(name, wrong(count), wrong(count)) for name, count in [("counts", 5), ("encoder", 25)]]
    expected = {"counts": 57.3, "encoder": 70.1}
    assert compare(validate_as(Corpus, corpus()), systems, 0.05, "best", expected=expected).chosen_system == "counts"


def test_the_cheapest_tie_is_chosen_whatever_experience_says() -> None:
    cheap, dear = (system(n, wrong(c), wrong(c), price=cost(flops=f)) for n, c, f in [("a", 7, 1e3), ("b", 5, 9e6)])
    expected = {"a": 50.0, "b": 90.0}
    found = compare(validate_as(Corpus, corpus()), [cheap, dear], 0.05, "cheapest", expected=expected)
    assert found.chosen_system == "a"


def test_a_system_that_experience_ranks_lower_is_replaced_whatever_its_score() -> None:
    systems = [scored_system(system(n, wrong(c), wrong(c))) for n, c in [("counts", 5), ("encoder", 7), ("far", 60)]]
    assert decide(systems, 0.05, "best", {"counts": 57.3, "encoder": 70.1}).replaced == [0]
    assert decide(systems, 0.05, "best").replaced == [1]  # by its loss
