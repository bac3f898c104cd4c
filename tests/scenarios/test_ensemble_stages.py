"""The ensemble of a run: all stages on small corpora; the saved ensemble gives the predictions that were scored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.records.ensemble_record import EnsembleRecord
from epigram.evaluation.records.results import read_evaluation
from epigram.inference.predictors.open_predictor import open_predictor
from epigram.process.stage_process import SPEED
from epigram.runner.retraining.challenge import read_predictions
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.workflow.ensemble import evaluated_split
from tests.support.bad_input import Workshop
from tests.support.certain import (
    compare,
    lines,
    one_label,
    prepared,
    run_systems,
    several_labels,
)

NAMES = ["random", "transformer", "tfidf_svm"]


def noisy(rows: Any, shift: int) -> Any:
    """Return the corpus `rows` with the label of another row for a third of the texts: no system can be certain.

    `shift` changes the random numbers; with those below, two systems have large weights in the ensemble.
    """

    def changed(split: str, seed: int) -> Iterator[dict[str, Any]]:
        times = 8 if split == "dev" else 1  # enough to judge a weight
        found = [row for number in range(times) for row in rows(split, seed + 1000 * shift + 100 * number)]
        draw = np.random.default_rng(seed + 10 + shift)
        for row in found:
            other = found[int(draw.integers(len(found)))]["label"]
            yield {**row, "label": other if draw.random() < 1 / 3 else row["label"]}

    return changed


def finished(folder: Path, rows: Any, shift: int, **source: Any) -> Workshop:
    shop = prepared(Workshop(folder), lines(noisy(rows, shift)), NAMES, **source)
    run_systems(shop, NAMES)
    compare(shop)
    return shop


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return finished(tmp_path_factory.mktemp("single"), one_label, 1)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return finished(tmp_path_factory.mktemp("several"), several_labels, 0, task="multi")


@pytest.fixture(params=["single", "several"])
def shop(request: pytest.FixtureRequest) -> Workshop:
    found: Workshop = request.getfixturevalue(request.param)
    return found


def test_the_saved_ensemble_gives_the_test_predictions_that_were_scored(shop: Workshop) -> None:
    folder = shop.root / "data/ensemble"
    texts = pl.read_parquet(shop.root / "data/validated/test.parquet")
    rows = pl.DataFrame({"row": read_evaluation(folder).test.rows}).join(texts, on="row", how="left")
    found = open_predictor(folder / "seed-0").probabilities(rows["text"].to_list())
    scored = read_evaluation(folder).test.probabilities[0]
    np.testing.assert_allclose(found, scored, atol=5e-3)  # evaluation and prediction may differ in batch and precision


def test_a_retraining_judges_the_ensemble_by_the_rows_and_the_score_of_its_evaluation(shop: Workshop) -> None:
    folder, corpus = shop.root / "data/ensemble", ValidatedCorpus.read(shop.root / "data/validated")
    found = read_predictions(folder, 0)
    np.testing.assert_array_equal(found.gold, corpus.label_array(corpus.frame("dev", corpus.label_column)))
    assert metric_of("auto", found.task, []).score(found) == pytest.approx(
        read_evaluation(folder).metrics.seeds[0].dev_score
    )


def test_texts_that_differ_only_in_case_and_punctuation_are_one_group(single: Workshop, tmp_path: Path) -> None:
    evaluation = read_evaluation(single.root / "data/evaluated/tfidf_svm")
    rows = pl.read_parquet(single.root / "data/validated/dev.parquet")
    texts = ["Good film!", "good  film", "Ｇｏｏｄ film", "a bad film", "..."]
    changed = rows.with_columns(text=pl.Series([*texts, *(f"text {n}" for n in range(rows.height - 5))]))
    changed.write_parquet(tmp_path / "dev.parquet")
    corpus = replace(ValidatedCorpus.read(single.root / "data/validated"), folder=tmp_path)
    groups = evaluated_split(evaluation, corpus, "dev").groups
    assert groups is not None and len(groups) == rows.height
    assert len(set(groups[:3].tolist())) == 1 and len(set(groups.tolist())) == rows.height - 2


def test_the_members_are_systems_that_learn_and_their_weights_add_up(shop: Workshop) -> None:
    record = EnsembleRecord.read(shop.root / "data/ensemble")
    assert {member.system for member in record.members} <= {"transformer", "tfidf_svm"}
    assert sum(member.weight for member in record.members) == pytest.approx(1.0)
    members = {path.name for path in (shop.root / "data/ensemble/seed-0/members").iterdir()}
    assert members == {member.system for member in record.members}


def test_the_members_predict_one_after_another(single: Workshop) -> None:
    members = [each.system for each in EnsembleRecord.read(single.root / "data/ensemble").members]
    assert len(members) == 2
    own, *speeds = (json.loads((single.root / SPEED / f"{name}.json").read_text()) for name in ("ensemble", *members))
    assert own["ms_per_text"] == pytest.approx(sum(each["ms_per_text"] for each in speeds))
    assert 1 / own["texts_per_second"] == pytest.approx(sum(1 / each["texts_per_second"] for each in speeds))


def test_the_thresholds_of_the_saved_ensemble_are_those_of_its_evaluation(several: Workshop) -> None:
    folder = several.root / "data/ensemble"
    assert open_predictor(folder / "seed-0").thresholds == read_evaluation(folder).metrics.seeds[0].thresholds


def test_the_comparison_and_the_report_show_the_ensemble(single: Workshop) -> None:
    report = single.root / "data/report"
    rows = {row["system"]: row for row in json.loads((report / "summary.json").read_text())["rows"]}
    assert set(rows) == {*NAMES, "ensemble"}
    members = EnsembleRecord.read(single.root / "data/ensemble").members
    assert rows["ensemble"]["flops"] == pytest.approx(sum(member.flops for member in members))
    page = (report / "report.html").read_text()
    assert "Members of the ensemble" in page and all(f"#system-{member.system}" in page for member in members)


def test_without_a_second_system_that_learns_there_is_no_ensemble(single: Workshop) -> None:
    single.params(systems={"tfidf_svm": {"view": "token"}, "random": {"view": "token"}})
    ended = single.stage("ensemble", "data/validated", "data/evaluated", "data/pruned", single.out)
    assert (ended.code, ended.out) == (0, "no ensemble: an ensemble needs two systems that learn\n")
    assert [path.name for path in single.out.iterdir()] == ["ensemble.json"]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_settings_turn_it_off(single: Workshop, enabled: bool) -> None:
    systems = {name: {"view": "token"} for name in ("tfidf_svm", "transformer")}
    single.params(systems=systems, ensemble={"enabled": enabled})
    ended = single.stage("ensemble", "data/validated", "data/evaluated", "data/pruned", single.out)
    assert ended.out.startswith("ensemble of " if enabled else "no ensemble: ensemble.enabled is false")


def test_a_system_may_not_be_named_ensemble(single: Workshop) -> None:
    single.params(systems={"ensemble": {"view": "token", "recipe": "tfidf_svm"}})
    single.stage("ensemble", "data/validated", "data/evaluated", "data/pruned", single.out).refused(
        64, "systems.ensemble: this name is reserved"
    )
