"""Texts without labels: each once, without those of the corpus; the vocabulary of a view counts them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from epigram.core.errors import DataError
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.text.student_texts import WithTexts, read_texts

ROWS = {"train": ["a goal", " coin "], "dev": ["a canvas"], "test": ["the end", "a goal"]}


@pytest.fixture
def corpus(tmp_path: Path) -> ValidatedCorpus:
    for split, texts in ROWS.items():
        pl.DataFrame({"row": range(len(texts)), "text": texts}).write_parquet(tmp_path / f"{split}.parquet")
    return ValidatedCorpus(
        folder=tmp_path, name="s", language="en", task="single", labels=["x"], token_labels=[], tokens_only=False
    )


def lines(folder: Path, *texts: str) -> Path:
    path = folder / "more.txt"
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def test_texts_of_dev_test_and_train_are_left_out_and_counted_apart(corpus: ValidatedCorpus, tmp_path: Path) -> None:
    """`a goal` is in train and in test: it counts as held out, because that is the worse case."""
    file = lines(tmp_path, "new", "a canvas", "coin", "  the end ", "other", "new", "", "a goal", "A canvas")
    found = read_texts(file, corpus)
    assert found.frame.rows() == [(0, "new"), (1, "other"), (2, "A canvas")]
    assert found.about == {"file": "more.txt", "held_out": 3, "known": 1, "texts": 3, "models": {}}


def test_a_file_that_has_only_texts_of_the_corpus_is_refused(corpus: ValidatedCorpus, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"more\.txt has only texts that the data set has too"):
        read_texts(lines(tmp_path, "coin", "the end"), corpus)


def test_the_vocabulary_reads_both_texts_and_the_corpus_stays(corpus: ValidatedCorpus, tmp_path: Path) -> None:
    widened = WithTexts.of(corpus, read_texts(lines(tmp_path, "new", "coin"), corpus))
    assert [text for batch in widened.texts("train") for text in batch] == ["a goal", " coin ", "new"]
    assert widened.sample("train", 10, 1_000) == ["a goal", " coin ", "new"]
    assert [text for batch in corpus.texts("train") for text in batch] == ["a goal", " coin "]
