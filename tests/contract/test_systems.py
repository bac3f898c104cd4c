"""Requirements on every registered system."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.models.batches import TextBatches
from epigram.models.predict import predict
from epigram.models.recipe import Recipe
from epigram.models.serialization import load, save
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.training.config import TrainingConfig
from epigram.training.dev_score import DevScore
from epigram.training.fitters import KINDS as FITTERS
from epigram.training.fitters import FitOptions
from epigram.training.loop.callback import Callback
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.base import Evaluation
from epigram.training.objectives.label_objective import label_objective
from tests.support.outputs import logits, padded
from tests.support.small_systems import (
    CLASSES,
    LABELS,
    MAX_LENGTH,
    NAMES,
    VOCABULARY,
    build,
    each_of,
    frame_of,
    recipe_of,
    texts_of,
)

UNKNOWN = 1  # the id of a word that is missing from train
LAYERS = {  # number of layers of the small encoders, by their settings; the others have none
    "transformer": 3, "universal_transformer": 3, "bilstm": 2, "pretrained": 2,
    "semantic_perceptron": {"mlp": 2, "smsp_e": 3, "smsp": 5, "dc": 5, "dmsp": 5},
}  # fmt: skip
LAYERED = [name for name in NAMES if RECIPES[name].encoder.get("kind") in LAYERS]
ONE_LABEL_HEADS = {"prompt", "attention_labeler"}  # these predict one label for each text
ONE_LABEL = [name for name in NAMES if RECIPES[name].head["kind"] in ONE_LABEL_HEADS]
FROM_SCRATCH = [name for name, made in RECIPES.items() if made.by_gradient and made.encoder["kind"] != "pretrained"]


def trained(recipe: Recipe, *, epochs: int = 1, seed: int = 0, rate: float = 1e-3) -> Any:
    """Return a model trained on 32 rows."""
    return fit(recipe, build(recipe, seed), texts_of(recipe), epochs=epochs, seed=seed, rate=rate)


@cache
def once(name: str) -> Any:
    """Return the model of a system after one epoch, which tests must not change."""
    return trained(recipe_of(name))


class UntilLearned(Callback):
    """End of a training whose model has learned the labels of all `texts`; if each has one, also those of tokens."""

    def __init__(self, texts: TextBatches) -> None:
        self.texts, self.learned = texts, False

    def after_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        if evaluation.score < 1:
            return
        found = predict(trainer.model, self.texts)
        trainer.model.train()
        whole = found.multi or found.tokens is None
        self.learned = whole or min(DevScore(part).of(found, self.texts) for part in ("sentence", "token")) > 0.97

    def stops(self, trainer: Trainer) -> bool:
        return self.learned


def fit(recipe: Recipe, model: Any, texts: TextBatches, *, epochs: int, rate: float, seed: int = 0) -> Any:
    """Train `model` on `texts` and hold out the same rows; with 10 epochs or more, one batch has all rows.

    Such a training ends as soon as the model has learned the rows.
    """
    if recipe.kind != "classifier":
        options = FitOptions(config=TrainingConfig(), path="systems.x", seed=seed)
        return FITTERS[recipe.kind](model, texts, texts, options).model
    size = 8 if epochs < 10 else len(texts)
    config = TrainingConfig(
        epochs=epochs, batch_size=size, learning_rate=rate, patience=min(epochs, 60), weight_decay=0.0,
        stop_on=recipe.train.get("stop_on", "sentence"),
    )  # fmt: skip
    trainer = Trainer(model, label_objective(texts, texts, config), seed=seed)
    if epochs >= 10:
        trainer.callbacks.append(UntilLearned(texts))
    trainer.run()
    return model


@pytest.mark.parametrize("name", NAMES)
def test_output_ignores_padding_and_batch_mates(name: str) -> None:
    model, texts = once(name), texts_of(recipe_of(name))
    together = logits(model, texts.gather(np.arange(len(texts))))
    for row in range(0, len(texts), 5):
        alone = texts.gather(np.array([row]))
        np.testing.assert_allclose(logits(model, alone)[0], together[row], atol=2e-5)
        wide = padded(alone, MAX_LENGTH - alone.ids.shape[1])
        np.testing.assert_allclose(logits(model, wide)[0], together[row], atol=2e-5)
    tokens = texts.gather(np.arange(8))
    other = replace(tokens, ids=torch.where(tokens.valid, tokens.ids, 17))  # other ids in the padding
    np.testing.assert_allclose(logits(model, other), logits(model, tokens), atol=2e-5)


@pytest.mark.parametrize("name", [n for n in NAMES if RECIPES[n].by_gradient])
def test_one_step_lowers_the_loss_on_its_batch(name: str) -> None:
    recipe = recipe_of(name)
    model, texts = build(recipe).eval(), texts_of(recipe)  # eval: no dropout, so both passes compute the same function
    tokens, labels = texts.gather(np.arange(16)), texts.targets(np.arange(16))
    before = model(tokens, labels).loss
    before.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.grad is not None:
                weight.sub_(1e-3 * weight.grad)
    assert model(tokens, labels).loss < before


@pytest.mark.parametrize("name", each_of(n for n in NAMES if RECIPES[n].kind != "random_baseline"))
def test_overfits_32_rows(name: str) -> None:
    recipe = recipe_of(name)
    model, texts = trained(recipe, epochs=150, rate=3e-3), texts_of(recipe)
    predicted = predict(model, texts)
    if recipe.head.get("sentence_weight", 1.0):
        assert DevScore("sentence").of(predicted, texts) >= 0.95
    if predicted.tokens is not None and recipe.head.get("token_weight", 1.0):
        assert DevScore("token").of(predicted, texts) >= 0.95


@pytest.mark.parametrize("name", NAMES)
def test_saves_and_reloads_to_equal_logits(name: str, tmp_path: Path) -> None:
    recipe = recipe_of(name)
    model, texts = once(name), texts_of(recipe)
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text("{}")
    save(tmp_path / "model", model, recipe=recipe, frame=frame_of(recipe), labels=LABELS, tokenizer=tokenizer, facts={})
    saved = load(tmp_path / "model")
    assert (saved.labels, saved.frame, saved.system) == (LABELS, frame_of(recipe), name)
    again, before = predict(saved.model, texts), predict(model, texts)
    np.testing.assert_array_equal(again.logits, before.logits)
    np.testing.assert_array_equal(again.tokens, before.tokens)
    assert np.isfinite(before.probabilities).all()
    np.testing.assert_allclose(before.probabilities.sum(1), 1.0, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_system_has_the_layers_of_its_settings(name: str) -> None:
    layers = LAYERS.get(RECIPES[name].encoder.get("kind", ""), 0)
    assert build(recipe_of(name)).depth == (layers[name] if isinstance(layers, dict) else layers)


@pytest.mark.parametrize("name", LAYERED)
def test_without_its_last_layer_a_system_saves_and_reloads(name: str, tmp_path: Path) -> None:
    recipe = recipe_of(name)
    model, texts = build(recipe).eval(), texts_of(recipe)
    depth, tokens = model.depth, texts.gather(np.arange(8))
    with torch.inference_mode():
        before = model.encode(tokens).states
        model.drop(-1)
        left = model.encode(tokens).states
    assert len(left) == len(before) - 1 == depth
    for state, same in zip(left[:-1], before, strict=False):  # an encoder may end with its own norm
        torch.testing.assert_close(state, same)
    (tmp_path / "tokenizer.json").write_text("{}")
    save(
        tmp_path / "model", model, recipe=recipe, frame=frame_of(recipe), labels=LABELS,
        tokenizer=tmp_path / "tokenizer.json", facts={},
    )  # fmt: skip
    smaller = load(tmp_path / "model").model
    assert smaller.depth == model.depth == depth - 1
    np.testing.assert_array_equal(predict(smaller, texts).logits, predict(model, texts).logits)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_result_and_another_seed_another(name: str) -> None:
    recipe = recipe_of(name)
    texts = texts_of(recipe)
    first, second = (predict(model, texts).logits for model in (once(name), trained(recipe)))
    np.testing.assert_array_equal(first, second)
    if recipe.kind != "linear_svm":
        assert not np.array_equal(first, predict(trained(recipe, seed=1), texts).logits)


@pytest.mark.parametrize("name", ONE_LABEL)
def test_a_head_that_gives_one_label_refuses_several(name: str) -> None:
    with pytest.raises(ParameterError, match="and the texts have several"):
        build(recipe_of(name), multi=True)


@pytest.mark.parametrize("name", each_of(n for n in NAMES if n not in ONE_LABEL))
def test_several_labels_a_text(name: str, tmp_path: Path) -> None:
    recipe, texts = recipe_of(name), texts_of(recipe_of(name))
    labels = texts.targets(np.arange(len(texts)))
    texts.labels = torch.nn.functional.one_hot(labels, CLASSES).to(torch.uint8)
    texts.labels[::4, 0] = 1
    fitted = fit(recipe, build(recipe, multi=True), texts, epochs=60, rate=6e-3)
    predicted = predict(fitted, texts)
    assert ((predicted.probabilities >= 0) & (predicted.probabilities <= 1)).all()
    if recipe.kind != "random_baseline":
        assert predicted.score(texts.labels.numpy()) > 0.6
    (tmp_path / "tokenizer.json").write_text("{}")
    save(
        tmp_path / "model", fitted, recipe=recipe, frame=frame_of(recipe), labels=LABELS,
        tokenizer=tmp_path / "tokenizer.json", facts={},
    )  # fmt: skip
    np.testing.assert_array_equal(predict(load(tmp_path / "model").model, texts).probabilities, predicted.probabilities)


def test_a_prompt_survives_the_longest_text() -> None:
    recipe = recipe_of("bert_pta")
    frame = frame_of(recipe)
    texts = TextBatches(
        Ragged.from_lists([[30] * 1000], np.int32),
        prefix=frame.prefix_ids,
        suffix=frame.suffix_ids,
        max_length=MAX_LENGTH,
        pad_id=0,
        unk_id=1,
    )
    ids = texts.gather(np.array([0])).ids[0].tolist()
    assert ids[:5] == frame.prefix_ids and ids[-1] == 3 and len(ids) == MAX_LENGTH


def test_an_empty_text_is_one_unknown_token() -> None:
    texts = TextBatches(Ragged.from_lists([[], [7]], np.int32), prefix=[], suffix=[], max_length=8, pad_id=0, unk_id=1)
    tokens = texts.gather(np.array([0, 1]))
    assert tokens.ids.tolist() == [[1], [7]] and bool(tokens.valid.all())


@pytest.mark.parametrize("name", FROM_SCRATCH)
def test_a_word_that_train_lacks_speaks_for_no_class(name: str) -> None:
    model = once(name)
    assert model.encoder.token_table.weight[UNKNOWN + 1 :].any(1).all()
    tables = [table.weight for table in model.encoder.modules() if isinstance(table, nn.Embedding)]
    assert not any(table[UNKNOWN].any() for table in tables if len(table) == VOCABULARY)


@pytest.mark.parametrize("name", ["dpcnn", "vdcnn"])
def test_a_prompt_is_refused_where_no_token_keeps_a_state(name: str) -> None:
    recipe = replace(RECIPES[name], head={"kind": "prompt"})
    with pytest.raises(ParameterError, match="head: prompt needs an encoder with one state per token"):
        recipe.build(DataSpec(vocabulary=9, classes=2, max_length=8, mask_id=4, prefix_ids=(2, 4)))


def test_a_wrong_part_is_refused_by_its_path() -> None:
    recipe = replace(RECIPES["textcnn"], encoder={"kind": "convolution", "filterss": 3})
    with pytest.raises(ParameterError, match=r"systems\.x\.encoder\.filterss is not a setting: did you mean 'filters'"):
        recipe.build(DataSpec(vocabulary=9, classes=2, max_length=8), "systems.x")
