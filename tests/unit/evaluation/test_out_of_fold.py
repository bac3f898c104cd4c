"""Out-of-fold predictions: no row is predicted by a model that has seen it, and the shares are nested."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.evaluation.quality.out_of_fold import predict_out_of_fold, stratified_order, text_features

WORDS = ["coin", "canvas", "goal"]


def texts(count: int) -> tuple[list[str], np.ndarray]:
    """Return texts whose label is that of one of their words."""
    draw, labels = np.random.default_rng(0), np.arange(count) % 3
    fillers = draw.choice(["some", "more", "words", "again", "today"], (count, 4))
    return [f"{' '.join(line)} {WORDS[label]}" for line, label in zip(fillers, labels, strict=True)], labels


def test_a_word_that_decides_the_label_is_learned() -> None:
    lines, labels = texts(300)
    found = predict_out_of_fold(
        text_features(lines, "en", 3), labels, np.arange(300) // 3 % 5, [0.1, 0.5, 1.0], classes=3
    )
    assert found.sizes.tolist() == [24, 120, 240]
    assert found.probabilities.sum(1) == pytest.approx(np.ones(300))
    assert (found.probabilities.argmax(1) == labels).mean() > 0.99
    assert (found.wrong[-1] == (found.probabilities.argmax(1) != labels)).all()
    assert found.wrong[0].mean() >= found.wrong[-1].mean()


def test_no_row_is_predicted_by_a_model_that_has_seen_it() -> None:
    """Each text has only a word of its own, and its label is random: a model knows it only if it has seen the text."""
    draw = np.random.default_rng(3)
    labels, folds = draw.integers(0, 2, 400), draw.integers(0, 5, 400)
    features = text_features([f"own{row}" for row in range(400)], "en", 2)
    found = predict_out_of_fold(features, labels, folds, [1.0], classes=2)
    assert 0.4 < found.wrong.mean() < 0.6


def test_equal_texts_of_two_folds_would_be_seen() -> None:
    """The test above can fail: with the same text in another fold, the label is known."""
    labels = np.repeat(np.random.default_rng(3).integers(0, 2, 200), 2)
    features = text_features([f"own{row // 2}" for row in range(400)], "en", 2)
    apart = predict_out_of_fold(features, labels, np.arange(400) % 2, [1.0], classes=2)
    together = predict_out_of_fold(features, labels, np.arange(400) // 2 % 2, [1.0], classes=2)
    assert apart.wrong.mean() < 0.1 and together.wrong.mean() > 0.3


def test_a_label_that_a_training_lacks_is_the_least_probable() -> None:
    lines, labels = texts(60)
    labels = np.where(np.arange(60) < 6, 3, labels)
    folds = np.where(labels == 3, 0, 1 + np.arange(60) % 2)
    found = predict_out_of_fold(text_features(lines, "en", 4), labels, folds, [1.0], classes=4)
    lacking = found.probabilities[labels == 3]
    assert (lacking.argmin(1) == 3).all() and (lacking[:, 3] < 0.02).all()
    assert found.probabilities.sum(1) == pytest.approx(np.ones(60))


def test_each_beginning_of_the_order_is_stratified_and_has_every_label() -> None:
    labels = np.repeat([0, 1, 2], [80, 18, 2])
    order = stratified_order(labels, np.random.default_rng(0))
    assert sorted(order.tolist()) == list(range(100))
    assert sorted(labels[order[:3]].tolist()) == [0, 1, 2]
    assert np.bincount(labels[order[:50]]).tolist() == [40, 9, 1]
    assert order.tolist() != stratified_order(labels, np.random.default_rng(1)).tolist()
    assert order.tolist() == stratified_order(labels, np.random.default_rng(0)).tolist()


def test_chinese_texts_are_compared_by_characters() -> None:
    same, other = text_features(["饭很好吃", "饭真好吃"], "zh", 2).toarray()
    assert 0.2 < same @ other < 0.9


def test_the_probabilities_are_as_good_as_they_say() -> None:
    """A word decides the label of two texts in three; the label of the others is random."""
    draw = np.random.default_rng(1)
    lines, labels = texts(3_000)
    guessed = draw.random(3_000) < 1 / 3
    labels = np.where(guessed, draw.integers(0, 3, 3_000), labels)
    lines = [line.rsplit(" ", 1)[0] if hidden else line for line, hidden in zip(lines, guessed, strict=True)]
    found = predict_out_of_fold(text_features(lines, "en", 3), labels, np.arange(3_000) % 5, [1.0], classes=3)
    confidence = found.probabilities.max(1)
    assert confidence.mean() == pytest.approx(1 - found.wrong.mean(), abs=0.03)


def test_a_share_of_sorted_rows_has_every_label() -> None:
    lines, labels = texts(300)
    order = np.argsort(labels, kind="stable")
    features = text_features([lines[row] for row in order], "en", 3)
    found = predict_out_of_fold(features, labels[order], np.arange(300) % 5, [0.1, 1.0], classes=3)
    assert found.wrong[0].mean() < 0.3


def test_two_labels_have_two_probabilities() -> None:
    lines, labels = texts(120)
    found = predict_out_of_fold(text_features(lines, "en", 2), labels % 2, np.arange(120) // 6 % 5, [1.0], classes=2)
    assert found.probabilities.shape == (120, 2)
    assert (found.wrong[0] == (found.probabilities.argmax(1) != labels % 2)).all()


def test_many_labels_leave_fewer_features() -> None:
    lines = [f"word{row} other{row}" for row in range(300)]
    assert text_features(lines, "en", 2).shape[1] == 900
    assert text_features(lines, "en", 1 << 14).shape[1] == 256
