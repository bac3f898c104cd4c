"""Tests of saved models in the transformers library: predictions equal those of the predictor."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, pipeline

import epigram.hf  # noqa: F401  registers the Auto classes
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.inference.predictors.predictor import Predictor
from epigram.models.classifier import NeuralClassifier
from epigram.models.predict import predict
from epigram.models.serialization import load, save
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.pos_words import PosWords
from epigram.text.tokens.tokenizers import SPECIALS, character_tokenizer, word_tokenizer, wordpiece_tokenizer

LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
WORDS = [*SPECIALS, "the", "food", "was", "bad", "good", "not", ",", "[", "]", "mask"]
TOKENIZERS: dict[str, Tokenizer] = {
    "word": word_tokenizer(WORDS),
    "character": character_tokenizer([*SPECIALS, *"这家店的菜真好吃不，"]),
    "piece": wordpiece_tokenizer([*WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]),
}
PROMPT = [2, 5, 4, 7, 4, 6]
TEXTS = [
    "the food was good",
    "bad",
    "",
    "   ",
    "这家店的菜真好吃",
    "the [MASK] food [SEP] was [PAD] unheardof",
    "the food was not good, " * 20,
]
CASES = [
    ("textcnn", "word", []),
    ("transformer_f", "character", []),
    ("transformer_f", "piece", [2]),
    ("dmsp", "word", []),
    ("bert", "piece", [2]),
    ("bert_pta", "piece", PROMPT),
    ("bert_hth_pta", "piece", PROMPT),
    ("cnle", "word", []),
    ("random", "word", []),
    ("xlnet", "piece", [2]),
]


def folder_of(
    recipe: str, tokenizer: str, prefix: list[int], folder: Path, *, multi: bool = False, characters: str = ""
) -> Path:
    """Save a model with random weights and return its folder."""
    torch.manual_seed(0)
    kind = TOKENIZERS[tokenizer]
    words = PosWords(
        language="en" if tokenizer == "piece" else "zh", pieces=tokenizer == "piece", notional=1.0, function=0.5,
        weights={"这家": 0.1, "真好": 0.2, "unheardof": 0.1, "food": 0.3}, frequencies={"店的": 10**6},
    )  # fmt: skip
    frame = TextTemplate(
        language="en", max_length=16, prefix_ids=prefix, suffix_ids=[3] if prefix else [], pad_id=0, unk_id=1,
        mask_id=4 if prefix == PROMPT else None, vocabulary=kind.get_vocab_size(),
        characters=characters, pos_words=asdict(words) if recipe == "transformer_f" else None,
    )  # fmt: skip
    context = DataSpec(
        vocabulary=frame.vocabulary, classes=3, max_length=16, multi=multi, mask_id=frame.mask_id,
        prefix_ids=tuple(prefix), pos_weight=torch.ones(frame.vocabulary),
    )  # fmt: skip
    model = RECIPES[recipe].build(context)
    for weight in model.parameters():  # large weights, so that predictions differ
        torch.nn.init.normal_(weight, std=0.3)
    if isinstance(model, NeuralClassifier):
        model.temperature.fill_(2.5)
    path = folder / "tokenizer.json"
    kind.save(str(path))
    save(
        folder / "model", model, recipe=RECIPES[recipe], frame=frame, labels=["bad", "fine", "good"], tokenizer=path,
        facts={}, thresholds=[0.3, 0.5, 0.6] if multi else None,
    )  # fmt: skip
    return folder / "model"


def in_full(folder: Path) -> NDArray[np.float32]:
    """Return the probabilities of TEXTS in float32, whatever precision the predictor uses on this processor."""
    return predict(load(folder).model, Predictor(folder).batches(TEXTS), precision="fp32").probabilities


@pytest.mark.parametrize(("recipe", "tokenizer", "prefix"), CASES)
def test_model_and_tokenizer_give_the_predictor_s_probabilities(
    recipe: str, tokenizer: str, prefix: list[int], tmp_path: Path
) -> None:
    folder = folder_of(recipe, tokenizer, prefix, tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    read = AutoTokenizer.from_pretrained(folder)
    expected = in_full(folder)
    with torch.inference_mode():
        together = model(**read(TEXTS, padding=True, return_tensors="pt")).logits
        alone = torch.cat([model(**read(text, return_tensors="pt")).logits for text in TEXTS])
    np.testing.assert_allclose(together.softmax(-1), expected, atol=1e-5)
    np.testing.assert_allclose(alone.softmax(-1), expected, atol=1e-5)


def test_a_text_has_the_weights_of_its_words_in_the_library_and_in_the_predictor(tmp_path: Path) -> None:
    folder = folder_of("transformer_f", "piece", [2], tmp_path)
    weight = Predictor(folder).batches(["the food, unheardof", "food"]).gather(np.arange(2)).word_weight
    assert weight is not None
    expected = [-1, 1, 0.3, 0.5, *[0.1] * 9, -1], [-1, 0.3, -1, *[-1] * 11]  # [CLS] the food , u ##n … ##f [SEP]
    assert weight.tolist() == [pytest.approx(row) for row in expected]
    model, read = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = read(["the food, unheardof", "food"], padding=True, return_tensors="pt")
    assert torch.equal(model._word_weight(ids["input_ids"], ids["attention_mask"].bool()), weight)


def test_the_tokenizer_frames_and_cuts_the_text_as_the_predictor_does(tmp_path: Path) -> None:
    folder = folder_of("bert_pta", "piece", PROMPT, tmp_path)
    read, predictor = AutoTokenizer.from_pretrained(folder), Predictor(folder)
    assert set(read("the food")) == {"input_ids", "attention_mask"}
    texts = [text for text in TEXTS if text.strip()]
    batches = predictor.batches(texts)
    for row, text in enumerate(texts):
        ids = read(text)["input_ids"]
        assert ids == batches.gather(np.array([row])).ids[0].tolist()
        assert ids[: len(PROMPT)] == PROMPT and ids[-1] == 3 and len(ids) <= 16
    assert len(read(TEXTS[-1], truncation=False)["input_ids"]) > 16


@pytest.mark.parametrize("multi", [False, True])
def test_a_pipeline_names_the_label_that_the_predictor_names(tmp_path: Path, multi: bool) -> None:
    folder = folder_of("textcnn", "word", [], tmp_path, multi=multi)
    classify: Any = pipeline("text-classification", str(folder), device="cpu")
    shown = [{each["label"]: each["score"] for each in row} for row in classify(TEXTS, top_k=None, batch_size=3)]
    for scores, row in zip(shown, in_full(folder), strict=True):
        assert scores == pytest.approx(dict(zip(["bad", "fine", "good"], row.tolist(), strict=True)), abs=1e-5)
    for text, scores, answer in zip(TEXTS, shown, Predictor(folder).predict(TEXTS), strict=True):
        best = max(scores, key=lambda label: scores[label])
        above = ", ".join(label for label, cut in (("bad", 0.3), ("fine", 0.5), ("good", 0.6)) if scores[label] > cut)
        assert classify(text)[0]["label"] == best
        if not text.strip():  # the pipeline answers, the predictor does not
            assert answer.labels == []
            continue
        assert answer.label == (above if multi else best)
        assert best == max(answer.probabilities, key=lambda p: answer.probabilities[p])
        assert answer.probabilities == pytest.approx(scores, abs=0.02)  # the predictor may run in bfloat16
    assert len({answer.label for answer in Predictor(folder).predict(TEXTS)}) > 1


def test_labels_and_the_kind_of_problem_are_the_folder_s(tmp_path: Path) -> None:
    config = AutoModelForSequenceClassification.from_pretrained(
        folder_of("textcnn", "word", [], tmp_path, multi=True)
    ).config
    assert config.id2label == {0: "bad", 1: "fine", 2: "good"}
    assert config.label2id == {"bad": 0, "fine": 1, "good": 2}
    assert (config.num_labels, config.problem_type) == (3, "multi_label_classification")


def test_the_loss_is_that_of_the_calibrated_logits(tmp_path: Path) -> None:
    folder = folder_of("textcnn", "word", [], tmp_path)
    model, read = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    out = model(**read(TEXTS[:2], padding=True, return_tensors="pt"), labels=torch.tensor([0, 2]))
    torch.testing.assert_close(out.loss, torch.nn.functional.cross_entropy(out.logits, torch.tensor([0, 2])))


def test_a_folder_that_was_changed_is_refused_as_everywhere(tmp_path: Path) -> None:
    folder = folder_of("textcnn", "word", [], tmp_path)
    (folder / "labels.json").write_text(json.dumps(["good", "fine", "bad"]))
    with pytest.raises(DataError, match=r"labels\.json was changed after the model was saved"):
        AutoModelForSequenceClassification.from_pretrained(folder)
    (folder / "labels.json").unlink()
    with pytest.raises(InputMissingError, match=r"labels\.json is missing"):
        AutoModelForSequenceClassification.from_pretrained(folder)


def test_a_model_that_spells_its_tokens_is_refused(tmp_path: Path) -> None:
    folder = folder_of("textcnn", "word", [], tmp_path, characters="abc")
    with pytest.raises(ParameterError, match="use epigram predict"):
        AutoModelForSequenceClassification.from_pretrained(folder)


def test_saving_by_the_library_is_refused(tmp_path: Path) -> None:
    folder = folder_of("textcnn", "word", [], tmp_path)
    with pytest.raises(ParameterError, match="copy its folder"):
        AutoModelForSequenceClassification.from_pretrained(folder).save_pretrained(tmp_path / "other")
    assert AutoConfig.from_pretrained(folder).system == "textcnn"


@pytest.mark.parametrize(("recipe", "tokenizer"), [("transformer_f", "character"), ("textcnn", "word")])
def test_white_space_around_a_text_changes_no_answer(recipe: str, tokenizer: str, tmp_path: Path) -> None:
    folder = folder_of(recipe, tokenizer, [], tmp_path)
    read, predictor = AutoTokenizer.from_pretrained(folder), Predictor(folder)
    bare = ["这家店 的菜", "the food", "\x1c不"]
    given = ["\u3000 \t这家店 的菜\n", "\xa0the food\u2003", "\x85\x1c不 "]
    assert (predictor.probabilities(given) == predictor.probabilities(bare)).all()
    assert read(given)["input_ids"] == read(bare)["input_ids"]
