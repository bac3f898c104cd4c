"""A task that models solve with certainty: each output shows the right label with the right probability."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from epigram.inference.predictors.predictor import Predictor, TextPrediction
from tests.support.bad_input import Workshop
from tests.support.certain import (
    LABELS,
    compare,
    lines,
    one_label,
    prepared,
    run_systems,
    several_labels,
    train,
)

ONE = {"some goal today": "sport", "coin again": "money", "people under a canvas": "arts", "their city coin": "money"}
SEVERAL = {
    "some goal": {"sport"},
    "coin again": {"money"},
    "canvas with many coin": {"arts", "money"},
    "goal under canvas": {"arts", "sport"},
}
SURE = 0.85  # with 21 texts on dev, all right, the calibrated probability is about 22/23


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Single-label: run every stage for a neural and a linear system; export the neural one."""
    names = ["textcnn", "tfidf_svm"]
    shop = prepared(Workshop(tmp_path_factory.mktemp("single")), lines(one_label), names)
    run_systems(shop, names)
    compare(shop)
    exported(shop, "data/pruned/textcnn/seed-0")
    return shop


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Multi-label: train both systems; export the neural one."""
    names = ["textcnn", "tfidf_svm"]
    shop = prepared(Workshop(tmp_path_factory.mktemp("several")), lines(several_labels), names, task="multi")
    for name in names:
        train(shop, name)
    exported(shop, "data/models/textcnn/seed-0")
    return shop


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Word labels: train, evaluate and export a tagger."""
    shop = prepared(Workshop(tmp_path_factory.mktemp("tagged")), lines(one_label), ["bilstm_tagger"], spans=True)
    run_systems(shop, ["bilstm_tagger"])
    exported(shop, "data/models/bilstm_tagger/seed-0")
    return shop


def exported(shop: Workshop, model: str) -> None:
    ended = shop.epigram("export", model, "exported")
    assert ended.code == 0, ended.err


def assert_one_sure(label: str, probabilities: dict[str, float]) -> None:
    """Check that `probabilities` are near 1 for `label` and near 0 for the others."""
    assert set(probabilities) == set(LABELS)
    assert {name for name, p in probabilities.items() if p > SURE} == {label}
    assert max(p for name, p in probabilities.items() if name != label) < 1 - SURE


MODELS = ["data/pruned/textcnn/seed-0", "data/pruned/tfidf_svm/seed-0", "data/report/chosen", "exported"]


@pytest.mark.parametrize("model", MODELS)
def test_the_command_names_the_right_label(single: Workshop, model: str) -> None:
    shown = [line.split("\t") for line in single.epigram("predict", model, *ONE).out.splitlines()]
    assert [(label, text) for label, _, text in shown] == [(label, text) for text, label in ONE.items()]
    assert all(float(p) > SURE for _, p, _ in shown)


@pytest.mark.parametrize("model", MODELS)
def test_json_gives_the_right_label_its_probability(single: Workshop, model: str) -> None:
    shown = [json.loads(line) for line in single.epigram("predict", model, "--json", *ONE).out.splitlines()]
    assert [(row["text"], row["label"]) for row in shown] == list(ONE.items())
    for row in shown:
        assert_one_sure(row["label"], row["probabilities"])


@pytest.mark.parametrize("model", MODELS)
def test_python_gives_the_right_label_its_probability(single: Workshop, model: str) -> None:
    predictor = Predictor(single.root / model)
    answers = predictor.predict(list(ONE))
    assert [answer.label for answer in answers] == list(ONE.values())
    for answer in answers:
        assert_one_sure(answer.label, answer.probabilities)
        assert answer.probability == answer.probabilities[answer.label]
    columns = predictor.probabilities(list(ONE)) > SURE
    assert columns.tolist() == [[name == label for name in LABELS] for label in ONE.values()]


def test_the_transformers_library_names_the_right_label(single: Workshop) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    import epigram.hf  # noqa: F401  registers the model

    folder = single.root / "data/pruned/textcnn/seed-0"
    model, read = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        logits = model(**read(list(ONE), padding=True, return_tensors="pt")).logits
    assert [model.config.id2label[number] for number in logits.argmax(1).tolist()] == list(ONE.values())
    assert [model.config.label2id[label] for label in ONE.values()] == logits.argmax(1).tolist()
    classify: Any = pipeline("text-classification", str(folder), device="cpu")
    for text, label in ONE.items():
        assert (best := classify(text))[0]["label"] == label and best[0]["score"] > SURE
        assert_one_sure(label, {each["label"]: each["score"] for each in classify(text, top_k=None)})


@pytest.mark.parametrize("name", ["textcnn", "tfidf_svm"])
def test_the_report_counts_every_class_under_its_name(single: Workshop, name: str) -> None:
    metrics = json.loads((single.root / f"data/evaluated/{name}/metrics.json").read_text())
    assert metrics["confusion"] == [[0, 0, 6], [1, 1, 24], [2, 2, 12]]  # 1/7, 4/7 and 2/7 of 42 texts
    assert {each["label"]: each["support"] for each in metrics["classes"]} == {"money": 6, "arts": 24, "sport": 12}
    assert (metrics["test"]["accuracy"], metrics["mistakes"]) == (1.0, [])


@pytest.mark.parametrize("model", ["data/models/textcnn/seed-0", "data/models/tfidf_svm/seed-0", "exported"])
def test_several_labels_are_named_where_their_words_stand(several: Workshop, model: str) -> None:
    wanted = [", ".join(label for label in LABELS if label in labels) for labels in SEVERAL.values()]
    text = [line.split("\t")[0] for line in several.epigram("predict", model, *SEVERAL).out.splitlines()]
    rows = [json.loads(line) for line in several.epigram("predict", model, "--json", *SEVERAL).out.splitlines()]
    answers = Predictor(several.root / model).predict(list(SEVERAL))
    assert text == [", ".join(row["labels"]) for row in rows] == [answer.label for answer in answers] == wanted
    for probabilities in [*(row["probabilities"] for row in rows), *(answer.probabilities for answer in answers)]:
        assert set(probabilities) == set(LABELS)
    for row, labels in zip(rows, SEVERAL.values(), strict=True):
        assert {name for name, p in row["probabilities"].items() if p > 0.5} == labels
        assert max(row["probabilities"].values()) > SURE


def test_the_transformers_library_gives_several_labels_their_probabilities(several: Workshop) -> None:
    from transformers import pipeline

    import epigram.hf  # noqa: F401  registers the model

    classify: Any = pipeline("text-classification", str(several.root / "data/models/textcnn/seed-0"), device="cpu")
    for text, labels in SEVERAL.items():
        assert {each["label"] for each in classify(text, top_k=None) if each["score"] > 0.5} == labels


@pytest.mark.parametrize("model", ["data/models/bilstm_tagger/seed-0", "exported"])
def test_the_deciding_word_is_labelled_by_its_label(tagged: Workshop, model: str) -> None:
    texts = {"some goal today": "goal", "coin again": "coin", "people under canvas": "canvas"}
    kinds = dict(zip(texts, ("sport", "money", "arts"), strict=True))
    shown = [line.split("\t") for line in tagged.epigram("predict", model, *texts).out.splitlines()]
    assert [label for label, *_ in shown] == list(kinds.values())
    marked = [text.replace(word, f"[{word}|{kinds[text]}]") for text, word in texts.items()]
    assert [text for *_, text in shown] == marked
    for answer, (text, word) in zip(Predictor(tagged.root / model).predict(list(texts)), texts.items(), strict=True):
        assert_words(answer, text, word, kinds[text])


def assert_words(answer: TextPrediction, text: str, word: str, label: str) -> None:
    """Check that every word of `text` has its position, that only `word` has `label`, and that all are certain."""
    assert [each.text for each in answer.words] == text.split()
    assert [text[each.start : each.end] for each in answer.words] == text.split()
    assert [each.label for each in answer.words] == [label if each == word else "O" for each in text.split()]
    assert all(each.probability > SURE for each in answer.words)


def test_the_report_counts_every_word_under_its_label(tagged: Workshop) -> None:
    metrics = json.loads((tagged.root / "data/evaluated/bilstm_tagger/metrics.json").read_text())
    words = metrics["tokens"]
    found = {each["label"]: (each["support"], each["f1"]) for each in words["classes"]}
    assert found == {"O": (210, 1.0), "money": (6, 1.0), "arts": (24, 1.0), "sport": (12, 1.0)}  # 5 fillers per text
    assert (words["test"]["f1"], words["test"]["span_f1"]) == (1.0, 1.0)
