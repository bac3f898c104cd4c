"""Word vectors of an encoder, for the tables of docs/papers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks import word_vectors
from epigram.labelling.similarity import load_encoder
from epigram.text.vectors.vectors import read_vectors
from tests.support.tiny_bert import write_bert


def test_a_word_has_the_vector_of_a_text_of_this_word_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bert, file = write_bert(tmp_path / "bert", ("good", "film", "the")), tmp_path / "words.npz"
    monkeypatch.setenv("EPIGRAM_CHECKPOINT", str(bert))
    monkeypatch.setattr(word_vectors, "training_texts", lambda _: ["The good film", "the film", "rare"])
    monkeypatch.setattr(sys, "argv", ["word_vectors", str(file), "mr"])
    word_vectors.main()
    found = read_vectors(file, ["film", "the", "good", "rare"])
    assert np.isnan(found).any(1).tolist() == [False, False, True, True]  # good and rare occur once
    expected = load_encoder(str(bert), "en")(["film", "the"])
    assert found[:2] == pytest.approx(expected, abs=1e-3)  # half precision
    assert np.abs(expected[0] - expected[1]).max() > 0.1


@pytest.mark.parametrize(("splits", "kept"), [(["train", "test"], ["a"]), ([None, None], ["a", "b"])])
def test_test_texts_are_left_out(splits: list[str | None], kept: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"text": ["a", "b"], "split": splits}, schema={"text": pl.String, "split": pl.String})
    monkeypatch.setattr(word_vectors, "corpus", lambda *_: frame)
    assert word_vectors.training_texts("pocket_en") == kept
