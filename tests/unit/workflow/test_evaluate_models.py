"""Evaluation of a system: each seed has its own predictions; the words are the view's, the plain class the model's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epigram.evaluation.settings import EvaluateSettings
from epigram.text.dataset.encoded_dataset import View
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.workflow import evaluate as step
from tests.support.evaluation_samples import system
from tests.support.text_samples import encoded_in

TEXTS = {"en": ("good film", ["good", "film"]), "zh": ("好片", ["好", "片"])}


def tagged(root: Path, pos: Path, language: str) -> View:
    text, words = TEXTS[language]
    rows = [(text, label, words, ["X", "O"]) for label in ("pos", "neg")]
    return encoded_in(root, pos, dict.fromkeys(("train", "dev", "test"), rows), language, token_labels=["O", "X"])


@pytest.mark.parametrize(("language", "between"), [("en", " "), ("zh", "")])
def test_words_are_joined_as_the_language_writes_them(language: str, between: str, tmp_path: Path, pos: Path) -> None:
    view = tagged(tmp_path, pos, language)
    words = step.gold_split(view, ValidatedCorpus.read(tmp_path / "validated"), "dev").words
    assert words is not None
    assert [words.separator.join(row) for row in words.texts] == [TEXTS[language][0]] * 2
    assert words.separator == between


def test_errors_have_file_and_line_and_long_texts_are_counted(tmp_path: Path, pos: Path) -> None:
    rows = [("good film", "pos"), ("a film", "neg"), ("bad long film", "neg")]
    view = encoded_in(tmp_path, pos, dict.fromkeys(("train", "dev", "test"), rows), "en")
    corpus = ValidatedCorpus.read(tmp_path / "validated")
    made = system("mine", [{0, 2}], [{0, 2}])
    errors = [replace(made.metrics.mistakes[0], row=row) for row in (8, 6)]
    made = replace(made, metrics=replace(made.metrics, mistakes=errors))
    located = step.locate_errors(made, corpus, "test").metrics.mistakes
    assert [(each.file, each.line) for each in located] == [("tiny.csv", 4), ("tiny.csv", 2)]
    (tmp_path / "config.json").write_text('{"about": "a model"}')
    predictor: Any = SimpleNamespace(saved=SimpleNamespace(frame=SimpleNamespace(room=2)), folder=tmp_path)
    said = step.describe_model(made, predictor, view).metrics
    assert (said.about, said.room, said.truncated) == ("a model", 2, 1)


PARTS = ("dev", "test", "cost", "alone", "temperature", "thresholds")


def test_each_seed_of_the_settings_has_the_predictions_of_its_own_model(
    tmp_path: Path, pos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, given = tagged(tmp_path, pos, "en"), dict[str, Any]()

    def measured(folder: Path, *_: object) -> SimpleNamespace:
        said = {name: f"{name} of {folder.name}" for name in PARTS}
        return SimpleNamespace(**said, plain=1, texts_per_second=900.0, decision="decoder")

    def combined(said: list[str], part: Any, truth: Any) -> list[str]:
        return said

    def evaluated(name: str, target: Any, **settings: Any) -> SimpleNamespace:
        given.update(settings, target=target)
        score = SimpleNamespace(value=0.5)
        return SimpleNamespace(metrics=SimpleNamespace(dev_score=score, test_score=score))

    def timed(predictor: str, texts: list[str], count: int) -> float:
        given["timed"] = predictor, texts, count
        return 1.5

    def explained(evaluation: Any, predictor: str, test: Any) -> Any:
        given["explained"] = predictor
        return evaluation

    monkeypatch.setattr(step, "measure", measured)
    monkeypatch.setattr(step, "Predictor", lambda folder, device: f"{folder.name} on {device}")
    monkeypatch.setattr(step, "milliseconds_per_text", timed)
    monkeypatch.setattr(step, "combine_seeds", combined)
    monkeypatch.setattr(step, "evaluate_system", evaluated)
    monkeypatch.setattr(step, "explain_errors", explained)
    for name in ("describe_model", "locate_errors"):
        monkeypatch.setattr(step, name, lambda evaluation, *_: evaluation)
    monkeypatch.setattr(step, "write_evaluation", lambda *_: None)
    monkeypatch.setattr(step, "sha256", lambda _: "")
    folders = (tmp_path / "validated", view.folder, tmp_path / "pruned", tmp_path / "out")
    settings = EvaluateSettings(timing_texts=9)
    step.evaluate_models("mine", settings, "auto", [7, 2, 5], *folders, speed=tmp_path / "speed")
    assert given["seeds"] == [7, 2, 5]
    passed = {"dev_output": "dev", "test_output": "test", "costs": "cost", "alone": "alone", "thresholds": "thresholds"}
    for key, name in {**passed, "temperatures": "temperature"}.items():
        assert list(given[key]) == [f"{name} of seed-{seed}" for seed in (7, 2, 5)]
    assert given["target"].plain == 1, "the class that the model takes for plain"
    assert given["decision"] == "decoder"
    assert given["explained"] == "seed-7 on cpu"
    assert given["timed"] == ("seed-7 on cpu", ["good film", "good film"], 9)
    speed = json.loads((tmp_path / "speed/mine.json").read_text())
    assert speed == {"ms_per_text": 1.5, "texts_per_second": 900.0, "model": ""}
