"""Tests of the plots that compare writes for `dvc plots`, and that dvc.yaml lists all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from epigram.core.config_types import validate_as
from epigram.core.files import read_json
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.records.summary import Corpus
from epigram.report.dvc_plots import write_plots
from tests.support.evaluation_samples import corpus, cost, system

ROOT = Path(__file__).parents[3]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Write the plots of a system with two seeds, one of which stops early, and of one without epochs."""
    evaluations = [
        system("svm", [{1}, {2}], [set(range(40)), {4}], price=cost(depth=None)),
        system("cnn", [{1, 2, 3}, {2}], [{3}, {4}]),
    ]
    for seed, scores in ((0, (0.5, 0.7)), (1, (0.6, 0.8, 0.9))):
        folder = tmp_path / "pruned" / "cnn" / f"seed-{seed}"
        folder.mkdir(parents=True)
        lines = [{"epoch": number, "step": 9, "loss": 1.0, "dev": dev} for number, dev in enumerate(scores, 1)]
        (folder / "history.json").write_text(json.dumps(lines))
    out = tmp_path / "compared"
    out.mkdir()
    summary = compare(validate_as(Corpus, corpus()), evaluations, 0.05)
    write_plots(
        out,
        summary,
        {each.metrics.system: each.metrics for each in evaluations},
        {each.metrics.system: tmp_path / "pruned" / each.metrics.system for each in evaluations},
    )
    return out


def test_a_curve_is_the_mean_of_the_seeds_that_got_so_far(written: Path) -> None:
    lines = read_json(written / "plots" / "curves.json")
    assert [(line["system"], line["epoch"]) for line in lines] == [("cnn", 1), ("cnn", 2), ("cnn", 3)]
    assert [line["dev"] for line in lines] == pytest.approx([0.55, 0.75, 0.9])


def test_every_gold_label_s_shares_sum_to_one(written: Path) -> None:
    cells = read_json(written / "plots" / "confusion.json")
    for name in ("svm", "cnn"):
        for gold in {cell["gold"] for cell in cells}:
            row = [cell["share"] for cell in cells if (cell["system"], cell["gold"]) == (name, gold)]
            assert sum(row) == pytest.approx(1.0)


def test_the_numbers_are_the_summary_s(written: Path) -> None:
    metrics, scores = read_json(written / "metrics.json"), read_json(written / "plots" / "scores.json")
    for row in scores:
        assert metrics["systems"][row["system"]]["test_score"] == row["test"]
        assert row["low"] <= row["test"] <= row["high"]
    shown = {row["system"]: row["test"] for row in scores}
    assert shown == {"svm": pytest.approx((0.6 + 0.99) / 2), "cnn": pytest.approx(0.99)}
    assert metrics["chosen"]["system"] in metrics["systems"]
    assert "depth_pruned" not in metrics["systems"]["svm"]


def test_dvc_yaml_names_every_file_and_its_template(written: Path) -> None:
    pipeline = yaml.safe_load((ROOT / "dvc.yaml").read_text())
    named = {path: shown for plot in pipeline["plots"] for path, shown in plot.items()}
    files = {f"data/compared/{path.relative_to(written)}" for path in written.rglob("*.json")}
    assert files == {*named, *pipeline["metrics"]}
    for path, shown in named.items():
        assert (ROOT / ".dvc" / "plots" / f"{shown['template']}.json").is_file()
        fields = read_json(written / Path(path).relative_to("data/compared"))[0]
        assert {shown["x"], shown["y"]} <= fields.keys()
