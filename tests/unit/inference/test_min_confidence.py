"""Tests of the minimum confidence: which texts keep their label, in every form of output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import epigram
from epigram.cli import app as cli
from epigram.core.errors import ParameterError
from epigram.inference.predictors.predictor import Predictor
from tests.support.linear_models import SEVERAL, svm

SURE, UNSURE = "soup soup", "nice"  # "nice" occurs with food and with staff


@pytest.fixture(scope="module")
def between(model: Path) -> float:
    """Return a probability between those of the two texts."""
    sure, unsure = Predictor(model).probabilities([SURE, UNSURE]).max(1)
    assert sure - unsure > 0.1
    return round(float(sure + unsure) / 2, 3)


def test_a_text_is_labelled_from_the_minimum_on(model: Path) -> None:
    [whole] = Predictor(model).predict([UNSURE])
    assert whole.labels and [each.labels for each in epigram.load(model).predict([UNSURE])] == [whole.labels]
    exact = epigram.load(model, min_confidence=whole.probability)
    assert exact.predict([UNSURE])[0] == whole
    [unsure] = epigram.load(model, min_confidence=whole.probability + 1e-6).predict([UNSURE])
    assert (unsure.labels, unsure.label) == ([], "")
    assert (unsure.probability, unsure.probabilities) == (whole.probability, whole.probabilities)


def test_lines(run: Callable[..., None], between: float, capsys: pytest.CaptureFixture[str]) -> None:
    run(SURE, UNSURE, "--min-confidence", between)
    said = capsys.readouterr()
    first, second = (line.split("\t") for line in said.out.splitlines())
    assert (first[0], first[2], second[0], second[2]) == ("food", SURE, "", UNSURE)
    assert 0 < float(second[1]) < between < float(first[1])
    assert said.err == f"note: 1 text is below the minimum confidence of {between}, without a label\n"


def test_json(run: Callable[..., None], between: float, capsys: pytest.CaptureFixture[str]) -> None:
    run(SURE, UNSURE, "--json", "--min-confidence", between)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["label"], second["label"], len(second["probabilities"])) == ("food", None, 3)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables(
    suffix: str, run: Callable[..., None], between: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.DataFrame({"text": [UNSURE, SURE, UNSURE]}).write_csv(tmp_path / "in.csv")
    out = tmp_path / f"out.{suffix}"
    run(tmp_path / "in.csv", "--out", out, "--min-confidence", between)
    found = pl.read_csv(out) if suffix == "csv" else pl.read_parquet(out)
    assert found["label"].to_list() == [None, "food", None]
    assert found["probability"].null_count() == 0
    assert "note: 2 texts are below the minimum confidence" in capsys.readouterr().err


def test_without_a_minimum_no_text_is_counted(run: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    run(SURE, UNSURE)
    said = capsys.readouterr()
    assert all(line.split("\t")[0] for line in said.out.splitlines())
    assert said.err == ""


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_minimum_that_is_no_probability_is_refused(value: float, model: Path) -> None:
    with pytest.raises(ParameterError, match=r"the minimum confidence is .*; expected a number from 0 to 1"):
        epigram.load(model, min_confidence=value)


def test_several_labels_have_thresholds_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    several = svm(tmp_path, "en", SEVERAL["en"], multi=True)
    with pytest.raises(ParameterError, match="each with its own threshold; remove the minimum confidence"):
        epigram.load(several, min_confidence=0.5)
    assert epigram.load(several).predict(["here"])[0].labels == []
    monkeypatch.setattr("sys.argv", ["epigram", "predict", str(several), "here"])
    cli.app()
    assert capsys.readouterr().err == "", "no label is an answer of such a model"
