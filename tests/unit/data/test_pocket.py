"""Tests of the two built-in corpora: complete, without near-duplicates, and neither trivial nor unlearnable."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

POCKET = Path(__file__).parents[3] / "data" / "pocket"
TOPICS = {"food", "hotel", "phone", "film", "book", "delivery"}


def lines(language: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (POCKET / f"pocket_{language}.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_lines_are_whole(language: str) -> None:
    rows = lines(language)
    assert len(rows) >= 800
    assert len({row["text"] for row in rows}) == len(rows)
    for row in rows:
        assert list(row) == ["text", "label", "topics", "evidence"]
        assert row["label"] in {"positive", "negative"}
        assert 1 <= len(row["topics"]) <= 3 and set(row["topics"]) <= TOPICS
        assert row["evidence"] and all(span and span in row["text"] for span in row["evidence"])
        assert 4 <= len(row["text"] if language == "zh" else row["text"].split()) <= 60
    assert {topic for row in rows for topic in row["topics"]} == TOPICS
    assert max(Counter(row["label"] for row in rows).values()) <= 0.55 * len(rows)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_no_two_sentences_share_more_than_60_percent_of_their_5_grams(language: str) -> None:
    grams = [{row["text"][i : i + 5] for i in range(max(1, len(row["text"]) - 4))} for row in lines(language)]
    owners: dict[str, list[int]] = {}
    for number, own in enumerate(grams):
        for gram in own:
            owners.setdefault(gram, []).append(number)
    shared = Counter(pair for numbers in owners.values() for pair in combinations(numbers, 2))
    worst = max(count / min(len(grams[a]), len(grams[b])) for (a, b), count in shared.items())
    assert worst <= 0.6


@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_linear_svm_finds_it_neither_trivial_nor_hopeless(language: str) -> None:
    rows = lines(language)
    words = {"analyzer": "char"} if language == "zh" else {"token_pattern": r"\w+|[^\w\s]"}
    machine = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, **words), LinearSVC())
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = cross_val_score(machine, [row["text"] for row in rows], [row["label"] for row in rows], cv=folds)
    assert np.all((scores >= 0.65) & (scores <= 0.90)), scores
