"""Predictions on a level of labels such as goods/phone: known answers, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import epigram
from epigram.cli import app as cli
from epigram.core.errors import DataError, ParameterError
from epigram.fitting import estimates
from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction
from epigram.models import manifest
from tests.support.linear_models import TRAIN, svm
from tests.unit.fitting.test_fit import shop


class Given(BasePredictor):
    """Predictor that gives each text the same probabilities."""

    join = " "

    def __init__(self, given: dict[str, float], **more: Any) -> None:
        rule = {"hierarchy": "/", "multi": False, "min_confidence": 0.0} | more
        super().__init__(Path("given"), [*given], [0.5] * len(given), **rule)
        self.row = np.array([*given.values()], dtype=np.float32)

    def embed(self, texts: Iterable[str]) -> Any:
        raise AssertionError("no test asks for vectors")

    def _probabilities(self, texts: list[str]) -> Any:
        return np.stack([self.row] * len(texts))

    def _predict(self, texts: list[str]) -> list[TextPrediction]:
        return [self._prediction(self.row, [], truncated=False) for _ in texts]


UNSURE = {"a/x": 0.3, "a/y": 0.3, "b/z": 0.4}


def test_the_probabilities_below_a_label_are_added() -> None:
    """The most probable label is b/z, and the more probable first part is a."""
    model = Given(UNSURE)
    whole, top = model.predict(["text"]), model.predict(["text", " "], level=1)
    assert (whole[0].label, round(whole[0].probability, 6)) == ("b/z", 0.4)
    assert (top[0].label, round(top[0].probability, 6)) == ("a", 0.6)
    assert {name: round(each, 6) for name, each in top[0].probabilities.items()} == {"a": 0.6, "b": 0.4}
    assert (top[1].labels, top[1].probability, top[1].probabilities) == ([], 0.0, {"a": 0.0, "b": 0.0})
    assert model.predict(["text"], level=2) == whole


def test_a_label_with_fewer_parts_is_itself_below() -> None:
    model = Given({"a/x/1": 0.1, "a/x/2": 0.2, "a": 0.3, "b / z": 0.4})
    found = [model.predict(["text"], level=level)[0].probabilities for level in (1, 2, 3)]
    assert [{name: round(each, 6) for name, each in one.items()} for one in found] == [
        {"a": 0.6, "b": 0.4},
        {"a/x": 0.3, "a": 0.3, "b / z": 0.4},
        {"a/x/1": 0.1, "a/x/2": 0.2, "a": 0.3, "b / z": 0.4},
    ]


@pytest.mark.parametrize(("least", "labels", "on_top"), [(0.35, ["b/z"], ["a"]), (0.5, [], ["a"]), (0.7, [], [])])
def test_the_minimum_confidence_is_of_the_level(least: float, labels: list[str], on_top: list[str]) -> None:
    model = Given(UNSURE, min_confidence=least)
    assert model.predict(["text"])[0].labels == labels
    assert model.predict(["text"], level=1)[0].labels == on_top


def test_prices_of_whole_labels_do_not_choose_on_a_level() -> None:
    model = Given(UNSURE, prices=[[0.0, 0.0, 9.0], [0.0, 0.0, 9.0], [1.0, 0.0, 0.0]])
    assert (model.predict(["text"])[0].label, model.predict(["text"], level=1)[0].label) == ("a/y", "a")
    model = Given({"a/x": 0.2, "a/y": 0.1, "b/z": 0.7}, prices=[[0.0, 9.0, 9.0], [9.0, 0.0, 9.0], [1.0, 1.0, 0.0]])
    assert (model.predict(["text"])[0].label, model.predict(["text"], level=1)[0].label) == ("a/x", "b")


def test_of_several_labels_the_level_has_what_the_predicted_ones_are_below() -> None:
    model = Given({"a/x": 0.6, "a/y": 0.7, "b/z": 0.4, "c/u": 0.9}, multi=True)
    [top] = model.predict(["text"], level=1)
    assert top.labels == ["a", "c"] and round(top.probability, 6) == 0.9
    assert {name: round(each, 6) for name, each in top.probabilities.items()} == {"a": 0.7, "b": 0.4, "c": 0.9}


def test_what_has_no_such_level_is_refused_in_one_line() -> None:
    for level in (0, 3, -1):
        with pytest.raises(ParameterError, match=rf"^level is {level}, but the labels have the levels 1 to 2$"):
            Given(UNSURE).predict(["text"], level=level)
    with pytest.raises(ParameterError, match=r"^given knows no levels of its labels; train it with their separator"):
        Given(UNSURE, hierarchy="").predict(["text"], level=1)


def test_a_manifest_with_another_value_is_refused(tmp_path: Path) -> None:
    folder = svm(tmp_path, "en", TRAIN["en"])
    manifest.write(folder, manifest.read_facts(folder) | {"hierarchy": 1})
    with pytest.raises(DataError, match="hierarchy is no text"):
        epigram.load(folder)


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> str:
    monkeypatch.setattr("sys.argv", ["epigram", "predict", *map(str, arguments)])
    cli.app()
    return capsys.readouterr().out


def test_a_fitted_model_and_the_command_predict_on_a_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Chance decides between the two labels below food, so that no word tells which one is right."""
    monkeypatch.setattr(estimates, "installed_encoder", lambda language: None)
    texts, labels = shop(120)
    chance = random.Random(1)
    below = {"food": ["food/cold", "food/warm"], "room": ["room/all"]}
    model = epigram.fit(
        texts, [chance.choice(below[label]) for label in labels], hierarchy="/", budget="60s", verbose=False
    )
    [found] = model.predict(["the old soup"], level=1)
    whole = model.predict(["the old soup"])[0].probabilities
    assert found.label == "food" and found.probability > max(whole.values())
    assert found.probability == pytest.approx(whole["food/cold"] + whole["food/warm"])
    folder = model.save(tmp_path / "model")
    assert epigram.load(folder).predict(["the old soup"], level=1) == [found]
    line = f"food\t{found.probability:.3f}\tthe old soup\n"
    assert run(capsys, monkeypatch, folder, "the old soup", "--level", 1) == line
    told = json.loads(run(capsys, monkeypatch, folder, "the old soup", "--level", 1, "--json"))
    assert told["label"] == "food" and set(told["probabilities"]) == {"food", "room"}
    (tmp_path / "in.csv").write_text("text\nthe old soup\na big window\n", encoding="utf-8")
    run(capsys, monkeypatch, folder, tmp_path / "in.csv", "--level", 1, "--out", tmp_path / "out.csv")
    assert pl.read_csv(tmp_path / "out.csv")["label"].to_list() == ["food", "room"]
    monkeypatch.setenv("EPIGRAM_DEBUG", "1")
    with pytest.raises(ParameterError, match="the levels 1 to 2"):
        run(capsys, monkeypatch, folder, tmp_path / "in.csv", "--level", 3, "--out", tmp_path / "more.csv")
    assert not (tmp_path / "more.csv").exists()
