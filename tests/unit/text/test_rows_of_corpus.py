"""Test that rows of a validated corpus are found by their numbers, in the order in which they are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from epigram.text.dataset.validated_corpus import ValidatedCorpus


def test_rows_come_in_the_order_of_their_numbers_as_given(tmp_path: Path) -> None:
    corpus = ValidatedCorpus(
        folder=tmp_path, name="x", language="en", task="single", labels=["a"], token_labels=[], tokens_only=False
    )
    pl.DataFrame({"row": [3, 5, 8], "text": ["c", "e", "h"]}).write_parquet(tmp_path / "dev.parquet")
    assert corpus.frame_of("dev", np.array([8, 3, 5]), "text")["text"].to_list() == ["h", "c", "e"]
