"""Near duplicates with different labels: the pairs of small examples, and all of them among many texts."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.evaluation.quality.near_duplicates import find_near_duplicates, signatures
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
