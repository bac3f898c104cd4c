"""Explanations: scores of words with known values, by each method and kind of model, and how they are shown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import epigram
from epigram.cli import app as cli
from epigram.core.errors import ParameterError
from epigram.inference.explanations.ngram_weights import svm_scores
from epigram.inference.explanations.terminal import to_terminal
from epigram.inference.explanations.words import find_words, sum_by_word
from epigram.inference.onnx.export import export
from epigram.inference.predictors.predictor import Predictor
from epigram.models.linear_svm import LinearSvm, LinearSvmConfig
from epigram.nn.layers.types import DataSpec, Tokens
from tests.support.linear_models import LABELS, SEVERAL, TRAIN, ensemble_of_svms, svm

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def command(*arguments: object) -> None:
        monkeypatch.setattr("sys.argv", ["epigram", "explain", *map(str, arguments)])
        cli.app()

    return command


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        ("Don't stop,  now!", "en", ["Don't", "stop", ",", "now", "!"]),
        ("café cafe\u0301 3.5 👍🏽 👩\u200d👩\u200d👧 ❤\ufe0f", "en", ["café", "cafe\u0301", "3", ".", "5", "👍🏽",
          "👩\u200d👩\u200d👧", "❤\ufe0f"]),
        ("房间 很干净！", "zh", ["房间", "很", "干净", "！"]),
        (" \n", "en", []),
        (" ", "zh", []),
    ],
)  # fmt: skip
def test_words_are_whole_and_have_their_places(text: str, language: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in find_words(text, language).tolist()] == words


def test_scores_of_pieces_are_summed_by_word() -> None:
    words = np.array([[1, 4], [5, 7]])  # " abc de": the pieces are ab, c, "c d" and one of whitespace only
    spans = np.array([[1, 3], [3, 4], [3, 6], [4, 4]])
    assert sum_by_word(np.array([1.0, 2.0, 3.0, 8.0]), spans, words).tolist() == [1 + 2 + 2 + 8, 1]


def test_contributions_of_ngrams_are_as_computed_by_hand() -> None:
    model = LinearSvm(LinearSvmConfig(), DataSpec(vocabulary=9, classes=2, max_length=8))
    one, two = 4 + 1, (3 + 1) * 10 + 4 + 1  # "good", "not good"
    weight = torch.tensor([[0.0, 2.0], [0.0, -6.0]])
    model.install(torch.tensor([one, two]), torch.tensor([1.0, 2.0]), weight, torch.tensor([0.0, 0.25]), scale=2.0)
    tokens = Tokens(torch.tensor([[3, 4, 5, 4]]), torch.ones(1, 4, dtype=torch.bool))  # not good food good
    scores, base = svm_scores(model, tokens, 1)
    good, not_good = 1 + math.log(2), 2.0
    norm = math.hypot(good, not_good)
    each, pair = 2 * 2 * good / norm / 2, 2 * -6 * not_good / norm / 2
    assert scores == pytest.approx([pair, pair + each, 0, each], abs=1e-6)
    assert base == 0.5
    assert scores.sum() + base == pytest.approx(float(model(tokens).logits[0, 1]), abs=1e-6)


@pytest.mark.parametrize("settings", [{}, {"alphabet": LETTERS, "characters": [2, 3]}, {"orders": [2, 3]}])
@pytest.mark.parametrize("label", LABELS)
def test_words_of_a_linear_model_sum_to_its_score(settings: dict[str, Any], label: str, tmp_path: Path) -> None:
    predictor = Predictor(svm(tmp_path, "en", TRAIN["en"], **settings))
    text = "  nice Soup, soup large unknown room nice clerk here and there"  # longer than the model reads
    [found] = predictor.explain([text], label=label)
    score = predictor.run([text])[0].logits[0, LABELS.index(label)]
    assert found.method == "weights"
    assert found.base is not None
    assert sum(word.score for word in found.words) + found.base == pytest.approx(float(score), abs=1e-6)
    assert (
        [text[word.start : word.end] for word in found.words]
        == [word.text for word in found.words]
        == text.replace(",", " ,").split()
    )
    assert all(word.score == 0 for word in found.words[-3:])


def test_characters_of_a_chinese_model_are_summed_to_words(tmp_path: Path) -> None:
    predictor = Predictor(svm(tmp_path, "zh", TRAIN["zh"]))
    [found] = predictor.explain(["饭 好吃，"])
    assert [(word.text, word.start, word.end) for word in found.words] == [("饭", 0, 1), ("好吃", 2, 4), ("，", 4, 5)]
    assert found.label == "food"
    assert found.words[1].score > 0


@pytest.mark.parametrize("kind", ["model", "ensemble", "exported"])
def test_occlusion_finds_the_only_word_that_decides(kind: str, tmp_path: Path) -> None:
    rows = [(f"{word} thing", label) for word, label in (("soup", "food"), ("bed", "room"), ("clerk", "staff"))] * 3
    folder = ensemble_of_svms(tmp_path) if kind == "ensemble" else svm(tmp_path, "en", rows)
    if kind == "exported":
        pytest.importorskip("onnxruntime", reason="requires the extra onnx")
        export(folder, tmp_path / "exported")
        folder = tmp_path / "exported"
    predictor = epigram.load(folder)
    [found] = predictor.explain(["here soup there"], method="occlusion")
    assert (found.label, found.method, found.base) == ("food", "occlusion", None)
    assert [word.score for word in found.words[::2]] == pytest.approx([0, 0], abs=1e-4)
    with_word, without = predictor.probabilities(["here soup there", "here there"])[:, 0].tolist()
    lost = math.log(with_word / (1 - with_word)) - math.log(without / (1 - without))
    assert found.words[1].score == pytest.approx(lost, abs=1e-4)
    assert lost > 0.5
    assert (predictor.explain(["soup"])[0].method == "occlusion") == (kind != "model")


def test_a_text_of_several_labels_is_explained_for_the_asked_one(tmp_path: Path) -> None:
    predictor = Predictor(svm(tmp_path, "en", SEVERAL["en"], multi=True))
    for label, speaks in (("food", "soup"), ("room", "room")):
        [found] = predictor.explain(["soup room"], label=label)
        assert found.ranked[0].text == speaks
        assert found.probability == pytest.approx(predictor.probabilities(["soup room"])[0, LABELS.index(label)])
    [found] = predictor.explain(["soup room room"])
    assert found.label == LABELS[int(predictor.probabilities(["soup room room"])[0].argmax())]


def test_an_empty_text_has_no_words(model: Path) -> None:
    predictor = Predictor(model)
    assert predictor.explain([]) == []
    found = predictor.explain(["soup", " \n", ""])
    assert [(each.text, len(each.words), each.label) for each in found] == [("soup", 1, "food"), (" \n", 0, ""),
                                                                           ("", 0, "")]  # fmt: skip
    assert found[1].probability == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gradients"}, "the method 'gradients' does not fit .*; use weights or occlusion"),
        ({"method": "magic"}, "the method 'magic' does not fit .*"),
        ({"label": "pool"}, "has no label 'pool'; its labels are food, room, staff"),
    ],
)
def test_a_method_or_label_that_the_model_does_not_have_is_refused(
    options: dict[str, str], message: str, model: Path
) -> None:
    with pytest.raises(ParameterError, match=message):
        Predictor(model).explain(["soup"], **options)


def test_the_command_prints_words_with_signs_and_json(
    model: Path, call: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    call(model, "nice soup \x1b[31m room", "[red]")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert shown.startswith("food 0.")
    assert [line.split()[1] for line in shown.splitlines()[2:4]] == ["soup", "room"]
    assert [line.split()[0][0] for line in shown.splitlines()[2:4]] == ["+", "-"]
    assert "\n[red]\n" in shown
    call(model, "nice soup", "--format", "json", "--out", tmp_path / "out.jsonl")
    assert (
        json.loads((tmp_path / "out.jsonl").read_text("utf-8")) == Predictor(model).explain(["nice soup"])[0].to_dict()
    )


def test_words_are_coloured_by_sign_in_a_terminal(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    shown = to_terminal(Predictor(model).explain(["nice soup room"]), colours=True)
    assert "\x1b[1;32msoup" in shown
    assert "\x1b[31mroom" in shown
