"""Data quality: near duplicates with different labels, and labels that are probably wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.evaluation.quality.data_quality import DataQuality, Pair, Suspect, write_quality
from epigram.evaluation.quality.label_noise import (
    Suspects,
    confident_joint,
    find_suspects,
    noise_counts,
    self_confidence,
    wrong_probability,
)
from epigram.evaluation.quality.near_duplicates import BAND_ROWS, BANDS, find_near_duplicates, signatures
from epigram.text.tokens.characters import cosines, ngram_sets

LONG = "the room was large and the breakfast was good but the staff at the desk did not smile at all"


def pairs_of(texts: list[str], labels: list[int], similarity: float = 0.85) -> list[tuple[int, int]]:
    found = find_near_duplicates(texts, np.array(labels), "en", similarity=similarity)
    return list(zip(found.first.tolist(), found.second.tolist(), strict=True))


def test_similar_texts_with_different_labels_are_found() -> None:
    texts = [LONG, "something else", LONG.replace("large", "huge"), LONG, "nothing in common"]
    found = find_near_duplicates(texts, np.array([0, 0, 1, 1, 1]), "en", similarity=0.85)
    # the first row equals the fourth; the third differs in a word, and has the label of the fourth
    assert (found.first.tolist(), found.second.tolist()) == ([0, 0], [3, 2])
    sets = ngram_sets(texts, "en")
    assert found.similarity == pytest.approx([1.0, cosines(sets[[0]], sets[[2]])[0]])


def test_a_pair_below_the_similarity_is_not_reported() -> None:
    texts = [LONG, LONG.replace("large", "huge")]
    sets = ngram_sets(texts, "en")
    cosine = cosines(sets[[0]], sets[[1]])[0]
    assert pairs_of(texts, [0, 1], cosine) == [(0, 1)]
    assert pairs_of(texts, [0, 1], cosine + 0.001) == []


def test_equal_labels_are_no_pair() -> None:
    assert pairs_of([LONG, LONG, LONG], [1, 1, 1]) == []


def test_no_text_and_texts_of_one_character_are_allowed() -> None:
    assert pairs_of([], []) == []
    assert pairs_of(["a"], [0]) == []
    assert pairs_of(["a", "b", "a"], [0, 1, 1]) == [(0, 2)]
    assert pairs_of([LONG, "", LONG, "", ""], [0, 0, 1, 1, 0]) == [(0, 2)]


def test_a_wrong_label_among_many_equal_texts_is_found() -> None:
    labels = [0] * 500
    labels[250] = 1
    pairs = pairs_of([LONG] * 500, labels)
    assert pairs and all(250 in pair for pair in pairs)
    assert len(pairs) <= 20  # not with each of the 499 others


def corpus(count: int) -> tuple[list[str], np.ndarray]:
    """Return random texts, of which every twentieth is the one before it with a character changed."""
    draw = np.random.default_rng(0)
    letters = np.array(list("abcdefghij klmnop"))
    texts = ["".join(draw.choice(letters, 80)) for _ in range(count)]
    for row in range(19, count, 20):
        texts[row] = texts[row - 1][:40] + "z" + texts[row - 1][41:]
    return texts, np.arange(count) % 2


def test_all_pairs_are_found_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epigram.evaluation.quality.near_duplicates.BLOCK", 7)
    monkeypatch.setattr("epigram.evaluation.quality.near_duplicates.PAIRS", 5)
    texts, labels = corpus(1_000)
    found = find_near_duplicates(texts, labels, "en", similarity=0.85)
    assert sorted(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [
        (row - 1, row) for row in range(19, 1_000, 20)
    ]
    assert (np.diff(found.similarity) <= 1e-12).all()


def test_a_signature_estimates_the_jaccard_similarity() -> None:
    texts = [LONG, LONG.replace("breakfast", "dinner")]
    sets = ngram_sets(texts, "en")
    shared = sets[[0]].multiply(sets[[1]]).sum()
    jaccard = shared / (sets.sum() - shared)
    first, second = signatures(texts, "en")
    assert abs((first == second).mean() - jaccard) < 0.2
    assert (signatures(texts[1:], "en")[0] == second).all()


# Rows 0 to 3 have the label 0, rows 4 to 7 the label 1; row 3 looks like a 1, row 7 is undecided.
LABELS = np.array([0, 0, 0, 0, 1, 1, 1, 1])
FIRST = np.array([0.9, 0.8, 0.7, 0.2, 0.1, 0.2, 0.4, 0.5])
PROBABILITIES = np.stack([FIRST, 1 - FIRST], axis=1)


def test_a_threshold_is_the_mean_probability_of_a_class_in_its_own_rows() -> None:
    assert self_confidence(PROBABILITIES, LABELS) == pytest.approx([0.65, 0.7])


def test_only_rows_that_reach_a_threshold_are_counted() -> None:
    # rows 0, 1, 2 reach 0.65 for label 0; rows 3, 4, 5 reach 0.7 for label 1; rows 6 and 7 reach none
    assert confident_joint(PROBABILITIES, LABELS).tolist() == [[3, 1], [0, 2]]


def test_a_row_that_reaches_two_thresholds_counts_for_the_more_probable_label() -> None:
    probabilities = np.array([[0.5, 0.4, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]])
    labels = np.array([0, 1, 2])
    # row 0 reaches the thresholds of 0 (0.5) and 1 (0.4)
    assert confident_joint(probabilities, labels).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_the_counts_add_up_to_the_rows_of_each_label() -> None:
    # of the 4 rows of label 0, three in four are right; of the 4 rows of label 1 all that are counted
    assert noise_counts(PROBABILITIES, LABELS).tolist() == [[3.0, 1.0], [0.0, 4.0]]


def test_the_suspect_is_the_row_that_looks_like_another_label() -> None:
    suspects = find_suspects(PROBABILITIES, LABELS)
    assert (suspects.rows.tolist(), suspects.given.tolist(), suspects.likely.tolist()) == ([3], [0], [1])
    assert suspects.margin == pytest.approx([0.6])


def test_suspects_are_ranked_by_margin_and_of_equal_margins_the_first_row_is_first() -> None:
    first = np.array([0.9, 0.9, 0.9, 0.1, 0.05, 0.1, 0.15, 0.15, 0.15, 0.15])
    labels = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
    suspects = find_suspects(np.stack([first, 1 - first], axis=1), labels)
    assert suspects.rows.tolist() == [4, 3, 5]
    assert suspects.margin == pytest.approx([0.9, 0.8, 0.8])


def test_a_row_that_is_predicted_as_labelled_is_no_suspect() -> None:
    """The threshold of a label whose rows are all doubtful is low, so that another label's rows reach it."""
    first = np.array([0.6, 0.95, 0.95, 0.65, 0.7, 0.6])
    labels = np.array([0, 0, 0, 1, 1, 1])
    probabilities = np.stack([first, 1 - first], axis=1)
    suspects = find_suspects(probabilities, labels)
    assert (probabilities[suspects.rows].argmax(1) != labels[suspects.rows]).all()
    assert set(suspects.rows.tolist()) <= {3, 4, 5}


def test_a_label_that_is_never_predicted_for_its_rows_accuses_nobody() -> None:
    probabilities = np.array([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.2, 0.8, 0.0], [0.5, 0.5, 0.0]])
    labels = np.array([0, 0, 1, 1, 2])
    assert self_confidence(probabilities, labels)[2] == np.inf
    assert confident_joint(probabilities, labels)[:, 2].tolist() == [0, 0, 0]
    assert find_suspects(probabilities, np.array([0, 0, 1, 1, 0])).rows.tolist() == []


def test_the_probability_that_a_label_is_wrong_follows_from_the_most_confident_disagreements() -> None:
    """Of 200 predictions, 4 of the 20 most confident ones disagree: e = 4.5 / 21. By hand for p = 0.3 and q = 0.7."""
    sure = np.where(np.arange(200) < 20, 0.99, 0.7)
    labels = np.where(np.arange(200) < 4, 1, 0)
    labels[100] = 1
    suspects = Suspects(rows=np.array([0, 100]), given=np.array([1, 1]), likely=np.array([0, 0]), margin=np.zeros(2))
    e = 4.5 / 21
    wanted = [1.0, e * (0.7 - e) / ((1 - 2 * e) * 0.3)]
    assert wrong_probability(np.stack([sure, 1 - sure], 1), labels, suspects) == pytest.approx(wanted)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.2])
def test_the_expected_number_of_wrong_labels_is_not_too_low(rate: float) -> None:
    """Labels are flipped with a known rate; the calibrated probabilities separate the two classes only in part."""
    draw = np.random.default_rng(0)
    truth = draw.integers(0, 2, 20_000)
    flipped = draw.random(20_000) < rate
    margin = 1.5 * (2 * truth - 1) + draw.normal(0, 1, 20_000)  # log-odds are 3 times the margin
    one = rate + (1 - 2 * rate) / (1 + np.exp(-3 * margin))
    probabilities, labels = np.stack([1 - one, one], 1), np.where(flipped, 1 - truth, truth)
    suspects = find_suspects(probabilities, labels)
    found, expected = flipped[suspects.rows].sum(), wrong_probability(probabilities, labels, suspects).sum()
    assert 0.85 * found < expected < 2 * found


def test_right_labels_alone_give_no_suspect() -> None:
    assert len(find_suspects(np.eye(3)[[0, 1, 2, 1]], np.array([0, 1, 2, 1])).rows) == 0


@pytest.mark.parametrize("classes", [2, 5])
def test_flipped_labels_are_found(classes: int) -> None:
    """5% of the labels of separable points are flipped; a classifier trained on the other folds finds them."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    draw = np.random.default_rng(0)
    truth = draw.integers(0, classes, 2_000)
    points = draw.normal(size=(len(truth), 8)) + 5 * np.eye(8)[truth]
    flipped = draw.random(len(truth)) < 0.05
    given = np.where(flipped, (truth + draw.integers(1, classes, len(truth))) % classes, truth)
    probabilities = cross_val_predict(LogisticRegression(), points, given, cv=5, method="predict_proba")
    suspects = find_suspects(probabilities, given)
    found = np.zeros(len(truth), np.bool_)
    found[suspects.rows] = True
    assert (found & flipped).sum() / found.sum() > 0.95  # precision
    assert (found & flipped).sum() / flipped.sum() > 0.9  # recall
    right = found & flipped
    assert (suspects.likely[right[suspects.rows]] == truth[suspects.rows[right[suspects.rows]]]).mean() > 0.98
    assert (np.diff(suspects.margin) <= 0).all()


def test_the_estimate_drops_no_pair_that_the_similarity_allows() -> None:
    """A short text within a longer one has a Jaccard similarity of the cosine's square only."""
    draw = np.random.default_rng(0)
    long = ["".join(draw.choice(list("abcdefghijklmnopqrstuvwxyz "), 120)) for _ in range(300)]
    texts = [each for text in long for each in (text, text[:50])]
    labels = np.arange(len(texts)) % 2
    sets, bands = ngram_sets(texts, "en"), signatures(texts, "en").reshape(len(texts), BANDS, BAND_ROWS)
    rows = np.arange(0, len(texts), 2)
    cosine = cosines(sets[rows], sets[rows + 1])
    candidate = (bands[rows] == bands[rows + 1]).all(2).any(1)  # only such pairs are compared
    wanted = rows[candidate & (cosine >= 0.6)]
    assert len(wanted) > 50
    found = find_near_duplicates(texts, labels, "en", similarity=0.6)
    assert set(zip(found.first.tolist(), found.second.tolist(), strict=True)) == {(row, row + 1) for row in wanted}


def test_the_lists_of_rows_have_no_formulas(tmp_path: Path) -> None:
    suspect = Suspect(file="=x.csv", line=2, label="-1", likely_label="+1", margin=-0.5, text="=HYPERLINK(1)")
    places: dict[str, Any] = {"file": "x.csv", "line": 2, "other_file": "x.csv", "other_line": 3}
    pair = Pair(**places, label="a", other_label="@b", similarity=0.9, text="-0.5", other_text="+1 good")
    write_quality(tmp_path, DataQuality(rows=2, suspects=[suspect], pairs=[pair]))
    found, near = (
        pl.read_csv(tmp_path / f"{name}.csv", infer_schema=False) for name in ("suspects", "near_duplicates")
    )
    assert found.row(0) == ("'=x.csv", "2", "-1", "+1", "-0.5000", "'=HYPERLINK(1)")
    assert near.row(0) == ("x.csv", "2", "a", "x.csv", "3", "'@b", "0.9000", "-0.5", "'+1 good")
