"""Explanations: scores of words with known values, by each method and kind of model, and how they are shown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.dom import minidom

import numpy as np
import pytest
import torch
from torch import nn

import epigram
from epigram.cli import app as cli
from epigram.cli.models.explain import main as explain_command
from epigram.core.errors import ParameterError
from epigram.core.marked_text import mark_words
from epigram.evaluation.records.results import Mistake
from epigram.inference.attention import AttentionMaps
from epigram.inference.explanations.attention import shares_of
from epigram.inference.explanations.errors import BUDGET, explain_mistakes
from epigram.inference.explanations.faithfulness import PREDICTIONS
from epigram.inference.explanations.gradients import has_gradients, path_scores
from epigram.inference.explanations.ngram_weights import svm_scores
from epigram.inference.explanations.pages import to_html, to_svg
from epigram.inference.explanations.terminal import to_terminal
from epigram.inference.explanations.token_scores import ReadText
from epigram.inference.explanations.words import find_words, sum_by_word
from epigram.inference.onnx.export import export
from epigram.inference.predictors.predictor import Predictor
from epigram.models.linear_svm import LinearSvm, LinearSvmConfig
from epigram.models.recipe import Recipe
from epigram.nn.layers.types import DataSpec, Tokens
from tests.support.linear_models import LABELS, SEVERAL, TRAIN, ensemble_of_svms, svm
from tests.support.small_systems import NAMES, build, distinct, recipe_of, texts_of

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
        ("\x1c", "en", ["\x1c"]),
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


def log_odds(logits: torch.Tensor, label: int) -> float:
    p = logits.double().softmax(-1)[label]
    return float(torch.log(p / (1 - p)))


def read_text(recipe: Recipe) -> ReadText:
    """Return one text of a small system, as its model reads it."""
    text = texts_of(recipe, 12).part(np.array([11]))
    return ReadText(text, np.zeros((int(text.counts[0]), 2), np.int64), len(text.prefix))


@pytest.mark.parametrize("name", distinct(NAMES))
def test_gradients_of_every_network_sum_to_the_change_of_its_log_odds(name: str) -> None:
    recipe = recipe_of(name)
    model = build(recipe)
    if not has_gradients(model):
        assert name in {"random", "tfidf_svm", "fast_text", *(each for each in NAMES if each.startswith("mhal"))}
        return
    model.eval()
    read = read_text(recipe)
    scores, base = path_scores(model, read, 1)
    change = log_odds(model(read.tokens()).logits[0].detach(), 1) - base
    assert scores.sum() == pytest.approx(change, abs=0.02, rel=0.02)
    assert np.abs(scores[read.own]).max() > 0
    if recipe.head["kind"] != "linear_ngrams":
        assert np.delete(scores, np.r_[read.own]) == pytest.approx(0)


def test_gradients_of_a_linear_network_are_its_weights() -> None:
    recipe = recipe_of("mlp").changed(
        encoder={"kind": "embedding", "width": 4}, head={"kind": "linear", "pool": "mean"}
    )
    model = build(recipe, multi=True)
    model.eval()
    read = read_text(recipe)
    scores, base = path_scores(model, read, 2)
    ids = read.tokens().ids[0]
    with torch.no_grad():
        each = model.encoder.token_table(ids) @ model.head.out.weight[2] / len(ids)
    assert scores == pytest.approx(each.numpy(), abs=1e-6)
    assert base == pytest.approx(model.head.out.bias[2].item(), abs=1e-6)


def test_attention_to_the_label_is_read_where_there_is_one() -> None:
    shares = np.array([[[0.2, 0.8], [0.6, 0.4]], [[0.4, 0.6], [0.6, 0.4]]], np.float32)
    assert shares_of(AttentionMaps(labels_to_text=shares), nn.Identity(), 1) == pytest.approx([0.6, 0.4])
    layers = np.array([[[[1.0, 0.0], [1.0, 0.0]]], [[[0.0, 1.0], [0.5, 0.5]]]], np.float32)
    assert shares_of(AttentionMaps(attention=layers), nn.Identity(), 0) == pytest.approx([0.625, 0.375])
    weighted = AttentionMaps(attention=layers, layer_weights=np.array([0.0, 1.0], np.float32))
    assert shares_of(weighted, nn.Identity(), 0) == pytest.approx([0.25, 0.75])


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


def test_a_file_is_no_text_to_explain(model: Path, call: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("text\nsoup\n")
    with pytest.raises(ParameterError, match=r"new\.csv is a file; expected texts: epigram explain "):
        explain_command(model, [str(tmp_path / "new.csv")])
    call(model, "soup.csv")  # names no file


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


def test_faithfulness_is_the_mean_fall_of_the_probability_without_the_top_words(tmp_path: Path) -> None:
    predictor = Predictor(svm(tmp_path, "en", TRAIN["en"]))
    text = "soup here there where when"
    [found] = predictor.explain([text], faithfulness=True)
    measured = found.faithfulness
    assert measured is not None
    with_soup, without_soup = predictor.probabilities([text, "here there where when"])[:, LABELS.index("food")].tolist()
    assert measured.shares == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert measured.probabilities == pytest.approx([without_soup] * 5)
    assert measured.comprehensiveness == pytest.approx(with_soup - without_soup)
    assert 0 < measured.random_comprehensiveness < measured.comprehensiveness / 2
    assert predictor.explain([text], faithfulness=True) == [found]
    assert found.to_dict()["faithfulness"]["probabilities"] == measured.probabilities
    assert predictor.explain(["", text], faithfulness=True)[1] == found


def test_page_and_picture_are_escaped_and_need_no_other_file(model: Path) -> None:
    attack = "soup <script>alert(1)</script> & <img src=x onerror=y> \x1b[31m"
    found = Predictor(model).explain([attack, ""], faithfulness=True)
    page, picture = to_html(found), to_svg(found)
    for shown in (page, picture):
        assert "<script" not in shown and "<img" not in shown
        assert "http" not in shown.replace("http://www.w3.org/2000/svg", "")
        assert "soup" in shown
    assert 'class="for" style="--s:1.00"' in page
    assert minidom.parseString(picture.replace("\x1b", "")).documentElement.tagName == "svg"
    assert "random words" in page


def test_errors_are_explained_for_the_wrong_label_in_the_shown_part_of_the_text(model: Path, tmp_path: Path) -> None:
    text = "nice soup here room"
    rows = [Mistake(row=row, text=shown, gold=gold, predicted=predicted, probability=0.9)
            for row, shown, gold, predicted in ((7, text, ["room"], ["food"]), (8, "nice…", ["room"], ["food"]),
                                                (9, text, ["room"], []))]  # fmt: skip
    texts = {7: text, 8: text, 9: text}
    (first, second, third), _ = explain_mistakes(Predictor(model), rows, texts, flops=1e12)
    assert [(text[start:end], weight > 0) for start, end, weight in first.words] == [
        ("nice", True), ("soup", True), ("room", False)]  # fmt: skip
    assert max(weight for *_, weight in first.words) == 1.0
    assert second.words == first.words[:1]
    assert [(text[start:end], weight > 0) for start, end, weight in third.words if weight == 1.0] == [("room", True)]
    network = svm(tmp_path, "en", TRAIN["en"])
    export(network, tmp_path / "exported")
    graph = Predictor(tmp_path / "exported")
    assert explain_mistakes(graph, rows, texts, flops=BUDGET / 5)[0][0].words
    assert not explain_mistakes(graph, rows, texts, flops=BUDGET)[0][0].words


def test_the_faithfulness_of_the_words_of_errors_is_as_computed_by_hand(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(9)]  # no n-gram of the model
    texts = {row: " ".join([*words[: row % 10], "soup", *words[row % 10 :]]) for row in range(40)}
    rows = [
        Mistake(row=row, text=text, gold=["room"], predicted=["food"], probability=1) for row, text in texts.items()
    ]
    known = [("soup", "food"), ("bed", "room"), ("clerk", "staff")] * 3
    predictor = Predictor(svm(tmp_path, "en", known, max_length=10))
    with_soup, without_soup = predictor.probabilities(["soup", "w0"])[:, 0].tolist()
    fall = with_soup - without_soup
    _, found = explain_mistakes(predictor, rows, texts, flops=1.0)
    assert found is not None
    assert (found.method, found.rows, found.clear) == ("weights", 40, True)
    assert found.comprehensiveness == pytest.approx(fall)
    # 1 to 5 random words of 10 have the only one that decides with the probabilities 0.1 to 0.5
    assert found.random_comprehensiveness == pytest.approx(0.3 * fall, abs=0.05 * fall)
    _, fewer = explain_mistakes(predictor, rows, texts, flops=BUDGET / PREDICTIONS / 7)
    assert fewer is not None
    assert fewer.rows == 7
    assert explain_mistakes(predictor, rows, texts, flops=BUDGET)[1] is None


def test_marked_words_are_escaped() -> None:
    marks = mark_words("<b> & c", [(0, 3, 1.0), (6, 7, -0.25)])
    assert (
        marks
        == '<mark class="for" style="--s:1.00">&lt;b&gt;</mark> &amp; <mark class="against" style="--s:0.25">c</mark>'
    )
