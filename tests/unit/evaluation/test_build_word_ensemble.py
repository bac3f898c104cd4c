"""Tests of the ensemble of a run whose words have labels: candidates, weights of each seed, worth, and stored words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from epigram.evaluation.build_ensemble import Combined, build
from epigram.evaluation.results import Evaluation, read_evaluation, write_evaluation
from epigram.evaluation.settings import EnsembleSettings
from epigram.evaluation.splits import Split
from tests.support.evaluation_samples import SETTINGS, cost, split, system, words

ROWS, LEAKED = 100, 60
TRUTH = words(ROWS)
WORDS = len(TRUTH.labels.values)
CLEAN = int(TRUTH.labels.offsets[LEAKED])  # the first word of the rows that are not in train
FOURTHS = [set(range(place, WORDS, 4)) for place in range(4)]


def of_words(name: str, wrong: Sequence[set[int]], *, tokens_only: bool = True, price: int = 1000) -> Evaluation:
    """Return a system that labels words, wrong on some of them; of its texts, a fourth is wrong."""
    texts = [set(range(0, ROWS, 4))] * len(wrong)
    return system(
        name, texts, texts, labelled=True, tokens_only=tokens_only, words_wrong=wrong, price=cost(parameters=price)
    )


def splits(*, leaked: int = 0) -> list[Split]:
    dev = replace(split(ROWS, 2), in_train=np.arange(ROWS) < leaked, words=TRUTH)
    return [dev, replace(split(ROWS, 2, first=ROWS), words=TRUTH)]


def built(systems: Sequence[Evaluation], *, leaked: int = 0) -> Combined:
    return build(systems, splits(leaked=leaked), EnsembleSettings(), SETTINGS)


def weights(combined: Combined, seed: int) -> dict[str, float]:
    return {member.system: member.weights[seed] for member in combined.record.members}


def test_members_that_err_on_different_words_are_better_together_and_cost_all_of_them() -> None:
    systems = [of_words(f"tagger_{n}", [FOURTHS[n]], price=1000 + n) for n in range(3)]
    combined = built(systems)
    assert combined.evaluation is not None
    found, alone = combined.evaluation.metrics, [each.metrics for each in systems]
    assert (found.score, found.dev_score.value, found.test_score.value) == ("token_f1", 1.0, 1.0)
    assert max(each.dev_score.value for each in alone) < 0.8
    assert found.tokens is not None
    assert found.tokens.test.span_f1 == 1.0
    assert found.seeds[0].cost.parameters == 3003
    assert found.seeds[0].cost.flops == sum(each.seeds[0].cost.flops for each in alone)


def test_the_words_of_rows_in_train_do_not_choose_and_the_worth_is_what_the_token_f1_loses() -> None:
    """A model that memorized train is right on the words of all leaked rows, and on no other one."""
    wrong = {"memory": set(range(CLEAN, WORDS)), **{f"tagger_{n}": FOURTHS[n] for n in range(3)}}
    systems = {name: of_words(name, [each]) for name, each in wrong.items()}
    combined = built(list(systems.values()), leaked=LEAKED)
    assert set(weights(combined, 0)) == {"tagger_0", "tagger_1", "tagger_2"}
    two = list(systems.values())[:2]
    assert "memory" in weights(built(two), 0), "it would be chosen by the rows that it knows"
    assert built(two, leaked=LEAKED).record.reason.startswith("one system alone")
    assert combined.evaluation is not None
    for member in combined.record.members:
        others = built([each for name, each in systems.items() if name != member.system], leaked=LEAKED).evaluation
        assert others is not None
        lost = combined.evaluation.metrics.dev_score.value - others.metrics.dev_score.value
        assert member.worth == pytest.approx(lost)
    assert max(member.worth for member in combined.record.members) > 0.1


def test_each_seed_has_its_own_weights_and_temperatures() -> None:
    """The model of the third system is useless with the second seed."""
    every = set(range(WORDS))
    systems = [of_words(f"tagger_{n}", [FOURTHS[n], every if n == 2 else FOURTHS[n]]) for n in range(3)]
    combined = built(systems)
    assert set(weights(combined, 0)) == {"tagger_0", "tagger_1", "tagger_2"}
    assert weights(combined, 0)["tagger_2"] > 0.2
    assert weights(combined, 1)["tagger_2"] == 0
    assert [len(member.word_temperatures) for member in combined.record.members] == [2] * 3
    assert len(combined.record.word_temperatures) == 2
    third = next(member for member in combined.record.members if member.system == "tagger_2")
    assert third.word_temperatures[0] < 1.5
    assert third.word_temperatures[1] > 2
    assert combined.evaluation is not None
    scores = [seed.test_score for seed in combined.evaluation.metrics.seeds]
    assert scores[0] == 1.0 > scores[1]


def test_where_words_are_ranked_systems_that_label_none_are_no_candidates() -> None:
    none = system("texts", [set()], [set()], labelled=True, tokens_only=True)
    combined = built([none, of_words("tagger_0", [FOURTHS[0]])])
    assert combined.record.reason == "an ensemble needs two systems that learn to label words"
    combined = built([none, *(of_words(f"tagger_{n}", [FOURTHS[n]]) for n in range(3))])
    assert "texts" not in weights(combined, 0)


def test_where_texts_are_ranked_a_member_without_word_labels_may_have_weight() -> None:
    """The text system errs on other texts than the tagger; the words are those of the tagger."""
    texts = [set(range(1, ROWS, 4))]
    systems = [system("texts", texts, texts, labelled=True), of_words("tagger", [FOURTHS[0]], tokens_only=False)]
    combined = built(systems)
    assert set(weights(combined, 0)) == {"texts", "tagger"}
    temperatures = {member.system: len(member.word_temperatures) for member in combined.record.members}
    assert temperatures == {"texts": 0, "tagger": 1}
    assert combined.evaluation is not None
    found, alone = combined.evaluation.metrics, systems[1].metrics
    assert found.score == "accuracy"
    assert found.tokens is not None
    assert alone.tokens is not None
    assert found.tokens.test.f1 == alone.tokens.test.f1 < 1


def test_without_members_that_label_words_the_ensemble_labels_none() -> None:
    texts = [[set(range(place, ROWS, 4))] for place in (1, 2)]
    systems = [system(f"texts_{n}", wrong, wrong, labelled=True) for n, wrong in enumerate(texts)]
    combined = built(systems)
    assert combined.evaluation is not None
    assert combined.evaluation.metrics.tokens is None
    assert combined.record.word_temperatures == []
    assert combined.evaluation.predictions.dev_word_probabilities is None


def test_stored_probabilities_of_words_are_small_and_survive_the_disk(tmp_path: Path) -> None:
    evaluation = of_words("tagger", [FOURTHS[0], FOURTHS[1]])
    write_evaluation(tmp_path / "tagger", evaluation)
    back = read_evaluation(tmp_path / "tagger").predictions
    for name in ("dev_word_probabilities", "test_word_probabilities"):
        stored, given = getattr(back, name), getattr(evaluation.predictions, name)
        assert (stored.dtype, stored.shape) == (np.float16, (2, WORDS, 3))
        np.testing.assert_array_equal(stored, given)
    assert back.dev_word_probabilities is not None
    assert back.dev_word_predictions is not None
    np.testing.assert_array_equal(back.dev_word_probabilities.argmax(-1), back.dev_word_predictions)
