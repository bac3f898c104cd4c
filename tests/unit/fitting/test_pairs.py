"""Models of pairs of texts: the side of a word decides, which joined columns do not tell."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

import epigram
from epigram.core.errors import ParameterError
from epigram.core.pairs import PAIR
from epigram.fitting import estimates
from epigram.fitting.record import FitRecord
from epigram.inference.tables import predict_table

FILLER = ["the", "a", "was", "very", "quite", "old", "new", "big", "small"]


def pairs(rows: int = 160) -> pl.DataFrame:
    """Return pairs whose label is the side of the word good, at the end of the question or the start of the answer."""
    chance = random.Random(0)
    found = []
    for row in range(rows):
        first, second = ([*chance.choices(FILLER, k=4)] for _ in range(2))
        (first.append if row % 2 else lambda word, to=second: to.insert(0, word))("good")
        found.append((" ".join(first), " ".join(second), ["answer", "question"][row % 2]))
    return pl.DataFrame(found, schema=["question", "answer", "label"], orient="row")


def test_a_model_of_pairs_knows_the_side_of_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "installed_encoder", lambda language: None)
    rows = pairs()
    rows.write_csv(tmp_path / "pairs.csv")
    model = epigram.fit(tmp_path / "pairs.csv", text=["question", "answer"], pair=True, budget="60s", verbose=False)
    loaded = epigram.load(model.save(tmp_path / "model"))
    first, second = ("the old new good", "a big small was"), ("the old new", "good a big small was")
    assert [each.label for each in loaded.predict([first, second])] == ["question", "answer"]
    assert [each.label for each in loaded.predict([PAIR.join(first), PAIR.join(second)])] == ["question", "answer"]
    found = loaded.explain([first])[0]
    assert "good" in [word.text for word in found.ranked[:2]] and PAIR not in [word.text for word in found.words]
    rows.drop("label").write_csv(tmp_path / "new.csv")
    predict_table(loaded, tmp_path / "new.csv", tmp_path / "out.csv")
    assert (pl.read_csv(tmp_path / "out.csv")["label"] == rows["label"]).mean() > 0.95
    assert epigram.evaluate(loaded, tmp_path / "pairs.csv").scores["accuracy"].value > 0.95
    record = FitRecord.of(tmp_path / "model")
    assert record.reading(tmp_path / "pairs.csv")["options"] == {"join": PAIR}
    record.check_texts(tmp_path / "model", tmp_path / "pairs.csv")
    with pytest.raises(ParameterError, match="a pair needs two columns"):
        epigram.fit(rows, text="question", pair=True)
