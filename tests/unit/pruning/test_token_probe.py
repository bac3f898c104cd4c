"""Tests of token classifiers on layers, on words whose token label and whose text's label need different layers.

A word is a number. The words 0 to 3 make a text of class 0, the others of class 1; odd words have the token label X.
In WORDS, both classes have more even words than odd ones, so a layer that tells only the class predicts no X. The even
words and the odd word belong mostly to class 0, so a layer that tells only the token label always predicts class 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from epigram.core.arrays import Ragged
from epigram.evaluation.metrics.primary import metric_of
from epigram.models.batches import TextBatches
from epigram.pruning.depth import PruningResult, layer_accuracies, prune
from epigram.pruning.settings import PruneSettings
from epigram.pruning.token_probe import labelled_texts, probe_tokens
from epigram.training.config import TrainingConfig
from epigram.training.dev_score import DevScore
from tests.support.layered import CLASS, FIRST, RIGHT, layers_of, tagger_of

WORDS = [0, 0, 1, 2, 4, 6]
CLASS_LAYER, TOKEN_LAYER = RIGHT, [0, 1] * 4
STILL = 1e-12  # a learning rate that changes no prediction


def texts_of(texts: list[list[int]], *, hidden: frozenset[int] = frozenset(), framed: bool = False) -> TextBatches:
    """Return texts of words; the words in `hidden` have no token label. `framed`: with prompt and special tokens."""
    words, lengths = np.concatenate(texts), np.array([len(text) for text in texts])
    return TextBatches(
        Ragged.from_lengths((FIRST + words).astype(np.int32), lengths), prefix=[FIRST + 1] if framed else [],
        suffix=[FIRST + 3] if framed else [], max_length=8, pad_id=0, unk_id=1,
        labels=CLASS[[text[0] for text in texts]],
        token_labels=np.where(np.isin(words, list(hidden)), -1, words % 2),
    )  # fmt: skip


SINGLE = texts_of([[word] for word in WORDS])


def pruned(layers: list[list[int]], scored: Any, train: TextBatches = SINGLE) -> PruningResult:
    """Prune to the first layer above 0.7."""
    config = TrainingConfig(
        stop_on=scored, weight_decay=0.0, schedule="constant", precision="fp32", learning_rate=STILL
    )
    settings = PruneSettings(threshold=0.7, rule="shallowest", tolerance=1.0, epochs=1)
    return prune(
        tagger_of(*layers),
        train,
        SINGLE,
        classes=2,
        settings=settings,
        config=config,
        seed=0,
        metric=metric_of("auto", "single", []),
    )


@pytest.mark.parametrize(
    ("scored", "alphas"),
    [
        ("sentence", [4 / 6, 1.0]),
        ("sentence_f1", [0.0, 1.0]),
        ("token", [1.0, 0.0]),
        ("mean", [(4 / 6 + 1) / 2, 0.5]),
        ("mean_f1", [0.5, 0.5]),
    ],
)
def test_each_layer_is_scored_by_the_labels_that_select_the_model(scored: Any, alphas: list[float]) -> None:
    """The token layer predicts class 0 for all texts. Class 0 is the plain one, so its F1* is 0."""
    model = tagger_of(TOKEN_LAYER, CLASS_LAYER)
    assert layer_accuracies(model, SINGLE, SINGLE, 2, "fp32", DevScore(scored)) == pytest.approx(alphas)


@pytest.mark.parametrize(
    ("layers", "scored", "kept", "score"),
    [
        ([TOKEN_LAYER, CLASS_LAYER], "token", 1, "token F1"),
        ([TOKEN_LAYER, CLASS_LAYER], "sentence", 2, "accuracy"),
        ([CLASS_LAYER, TOKEN_LAYER], "token", 2, "token F1"),
        ([CLASS_LAYER, TOKEN_LAYER], "sentence", 1, "accuracy"),
    ],
)
def test_the_depth_that_is_kept_depends_on_the_labels(
    layers: list[list[int]], scored: Any, kept: int, score: str
) -> None:
    found = pruned(layers, scored)
    assert (layers_of(found.model), found.score) == (layers[:kept], score)


def test_the_probe_learns_from_the_labels_of_train_and_is_scored_on_those_of_dev() -> None:
    """In dev, all of the words 1, 3, 5 and 7 are X; in train, 1 and 3 are. The class layer finds none of them."""
    dev = texts_of([[7, 5], [6], [3, 0]])
    assert probe_tokens(tagger_of(TOKEN_LAYER, CLASS_LAYER), SINGLE, dev) == [1.0, 0.0]


def test_tokens_keep_their_labels_in_texts_of_all_lengths() -> None:
    """The layer gets the word 2 wrong: F1 is 2·2 / (3 + 2) for X found at 1, 1 and 2."""
    texts = texts_of([[0, 1, 0, 6], [4], [0, 2, 0], [1, 0, 4, 4, 6]])
    layer = [0, 1, 1, 1, 0, 1, 0, 1]
    assert probe_tokens(tagger_of(layer), texts, texts) == pytest.approx([4 / 5])


def test_prompt_special_tokens_and_tokens_without_a_label_are_not_scored() -> None:
    """Prompt and suffix are odd words. Without their label, the words 2 and 3 would make the layer predict no X."""
    texts = texts_of([[0, 1, 2], [1, 4], [2, 2, 6]], hidden=frozenset({2}), framed=True)
    layer = [0, 1, 1, 1, 0, 1, 0, 1]
    assert probe_tokens(tagger_of(layer), texts, texts) == [1.0]


def test_few_tokens_are_taken_from_evenly_spaced_texts_with_labels() -> None:
    """Texts 0 and 3 have no label. Six of the seven labelled tokens make five of six texts, one token one text."""
    texts = texts_of([[2], [0], [1, 1], [2], [4], [0], [6], [0]], hidden=frozenset({2}))
    assert labelled_texts(texts, 100).tolist() == [1, 2, 4, 5, 6, 7]
    assert labelled_texts(texts, 6).tolist() == [1, 2, 4, 5, 7]
    assert labelled_texts(texts, 1).tolist() == [1]


def test_a_score_of_the_texts_needs_no_labelled_training_token() -> None:
    train = texts_of([[0], [5]], hidden=frozenset({0, 5}))
    found = pruned([TOKEN_LAYER, CLASS_LAYER], "sentence_f1", train)
    assert (layers_of(found.model), found.score) == ([TOKEN_LAYER, CLASS_LAYER], "text F1*")
    assert found.accuracies == (0.0, 1.0)


def test_without_a_labelled_training_token_all_layers_are_kept() -> None:
    found = pruned([TOKEN_LAYER, CLASS_LAYER], "token", texts_of([[0], [5]], hidden=frozenset({0, 5})))
    assert (found.accepted, found.model.depth) == (False, 2)
    assert found.reason == "no training token has a label to score the layers by"
    with pytest.raises(ValueError, match="no training token has a label"):
        probe_tokens(tagger_of(RIGHT), texts_of([[0]], hidden=frozenset({0})), SINGLE)


@pytest.mark.parametrize(("scored", "before"), [("token", 0.0), ("sentence", 1.0)])
def test_the_score_before_pruning_is_of_the_labels_that_select_the_model(scored: Any, before: float) -> None:
    """The last layer tells the class and finds no X."""
    assert pruned([TOKEN_LAYER, CLASS_LAYER], scored).dev_before == before
