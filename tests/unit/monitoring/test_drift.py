"""Tests of drift measures: a change is detected, unchanged data is not reported, and few texts prove nothing."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.core.arrays import Ragged, lengths_of
from epigram.monitoring.drift import (
    Reference,
    chance_quantile,
    class_histogram,
    fit_ngrams,
    histogram,
    measure,
    ngram_similarity,
    stability_index,
    unknown_share,
)

WORDS = ["river", "stone", "bridge", "lantern", "market", "winter", "garden", "window", "harbour", "letter"]
OTHERS = ["kernel", "buffer", "socket", "thread", "packet", "vector", "lambda", "mutex", "cursor", "daemon"]


def texts(words: list[str], number: int, seed: int) -> list[str]:
    drawn = np.random.default_rng(seed)
    return [" ".join(drawn.choice(words, drawn.integers(4, 9))) for _ in range(number)]


def reference(known: list[str]) -> Reference:
    ngrams = fit_ngrams(known)
    held_out = ngram_similarity(texts(WORDS, 300, seed=1), ngrams)
    return Reference(
        labels=["a", "b"],
        ngrams=ngrams,
        histograms={"length": histogram(lengths_of(known)), "likeness": histogram(held_out)},
    )


def drifted(new: list[str], threshold: float = 0.2) -> list[str]:
    kept = reference(texts(WORDS, 500, seed=0))
    values = {"length": lengths_of(new), "likeness": ngram_similarity(new, kept.ngrams)}
    return [found.name for found in measure(kept, values, threshold) if found.drifted]


def test_texts_of_the_same_kind_have_not_drifted() -> None:
    assert drifted(texts(WORDS, 300, seed=2)) == []


def test_texts_of_another_domain_have_drifted() -> None:
    assert "likeness" in drifted(texts(OTHERS, 300, seed=2))


def test_texts_of_another_language_have_drifted() -> None:
    assert drifted(["房间小了点，但是前台的姐姐真的太好了"] * 100) == ["length", "likeness"]


def test_a_handful_of_texts_proves_nothing() -> None:
    assert drifted(texts(WORDS, 5, seed=3), threshold=0.01) == []


def test_the_index_is_that_of_the_formula() -> None:
    expected, actual = np.array([50, 30, 20]), np.array([20, 30, 50])
    e, a = (expected + 0.5) / 101.5, (actual + 0.5) / 101.5
    assert stability_index(expected, actual) == pytest.approx(((a - e) * np.log(a / e)).sum())
    assert stability_index(expected, expected) == 0


@pytest.mark.parametrize(("bins", "quantile"), [(2, 10.8276), (10, 27.8772)])
def test_the_bound_of_chance_is_that_of_the_printed_table(bins: int, quantile: float) -> None:
    """The 0.999 quantiles of χ² with 1 and 9 degrees of freedom, from a printed table."""
    assert chance_quantile(1000, 400, bins) == pytest.approx((1 / 1000 + 1 / 400) * quantile, abs=1e-6)


@pytest.mark.parametrize(("known", "new", "bins"), [(0, 5, 2), (5, 0, 2), (5, 5, 1)])
def test_without_texts_or_bins_nothing_is_above_chance(known: int, new: int, bins: int) -> None:
    assert chance_quantile(known, new, bins) == float("inf")


def test_the_bound_of_chance_holds_for_drawn_texts() -> None:
    drawn = np.random.default_rng(0)
    draws = [drawn.multinomial(size, np.full(10, 0.1)) for size in (1000, 400) for _ in range(1000)]
    indices = [stability_index(known, new) for known, new in zip(draws[:1000], draws[1000:], strict=True)]
    assert np.mean(np.array(indices) > chance_quantile(1000, 400, 10)) < 0.006


def test_values_at_an_edge_and_beyond_the_known_ones_have_a_bin() -> None:
    known = histogram(np.arange(100))
    assert sum(known.counts) == 100 and len(known.counts) == 10 == len(known.edges) + 1
    assert histogram(np.zeros(100)).counts == [100, 0]
    assert class_histogram(np.array([0, 2, 2]), 4).counts == [1, 0, 2, 0]


def test_unknown_tokens_are_counted_by_text() -> None:
    ids = Ragged.from_lists([[1, 5], [1, 1], [7, 8]], np.int64)
    assert unknown_share(ids, unknown=1).tolist() == [0.5, 1.0, 0.0]


def test_an_ngram_ends_where_its_text_ends() -> None:
    ngrams = fit_ngrams(["ab", "cd", "xy"])
    apart, together = ngram_similarity(["ab", "cd"], ngrams), ngram_similarity(["abcd"], ngrams)
    assert (apart > 0).all() and together[0] > 0
    assert (
        ngram_similarity(["ab", "cd"], ngrams).tolist()
        == ngram_similarity(["ab"], ngrams).tolist() + ngram_similarity(["cd"], ngrams).tolist()
    )
    assert ngram_similarity(["", "ab"], ngrams)[0] == 0
    assert ngram_similarity([], ngrams).shape == (0,)


def test_a_rare_ngram_weighs_as_much_in_a_text_that_repeats_it() -> None:
    """Each n-gram occurs in one of three texts: ln(4 / 2) + 1, and ln(4 / 1) + 1 for one that occurs in none."""
    weights = fit_ngrams(["aaaaaa", "bbbbbb", "cccccc"]).weights
    assert set(weights) == {round(float(np.log(4 / rows)) + 1, 4) for rows in (1, 2)}
