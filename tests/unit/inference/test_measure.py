"""Tests of what the evaluate stage measures on a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.arrays import Ragged
from epigram.inference.predictors import measure as measuring
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.inference.predictors.measure import measure
from epigram.models.batches import TextBatches
from epigram.models.complexity import flops
from epigram.models.recipe import Recipe
from epigram.models.serialization import load
from epigram.recipes.registry import RECIPES
from epigram.text.settings import ViewSettings
from epigram.training.config import configure
from epigram.training.distributed.resources import resolve_threads
from tests.support.text_samples import EN
from tests.support.trained import train_seed

ENCODER = {"kind": "transformer", "width": 16, "heads": 2, "hidden": 16, "depth": 1}


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_both_masks_of_a_prompt_are_judged_by_themselves(tmp_path: Path, encoded: Any, gamma: float) -> None:
    view = encoded(EN, language="en", view=ViewSettings(tokenizer="wordpiece", prompt=True))
    head = {"kind": "prompt", "gamma": gamma}
    recipe = Recipe(name="mine", about="", paper="", view="wordpiece_prompt", encoder=ENCODER, head=head)
    train_seed(
        "mine", recipe, resolve_threads(configure("mine", recipe), recipe, None), view, None, 0, tmp_path / "model"
    )
    found = measure(tmp_path / "model", view)
    assert [each.name for each in found.alone] == ["the label is", "the label is not"]
    saved = load(tmp_path / "model")
    for name in ("dev", "test"):
        texts = batches_of(view, name, saved.frame)  # type: ignore[arg-type]
        with torch.inference_mode():
            yes, no = saved.model.head.masks(saved.model.encode(texts.gather(np.arange(len(texts)))))
            answers = saved.model.head.label(yes).argmax(1), saved.model.head.complement(no).argmin(1)
        labels = np.array(view.split(name).labels)
        assert [getattr(each, name) for each in found.alone] == [(a.numpy() == labels).mean() for a in answers]
        both = (getattr(found, name).logits.argmax(1) == labels).mean()
        assert both == getattr(found.alone[0 if gamma else 1], name)  # γ of 1 or 0 uses only one of the masks


@pytest.mark.parametrize(("total", "count", "rows"), [(10, 4, [0, 3, 6, 9]), (3, 8, [0, 1, 2]), (9, 1, [0])])
def test_the_timed_texts_are_evenly_spaced(total: int, count: int, rows: list[int]) -> None:
    assert measuring._spread(total, count).tolist() == rows


def test_a_system_of_one_piece_has_nothing_to_judge_by_itself(tmp_path: Path, encoded: Any) -> None:
    view, recipe = encoded(EN, language="en"), RECIPES["tfidf_svm"]
    train_seed(
        "tfidf_svm",
        recipe,
        resolve_threads(configure("tfidf_svm", recipe), recipe, None),
        view,
        None,
        0,
        tmp_path / "model",
    )
    assert measure(tmp_path / "model", view).alone == []


def test_the_embeddings_are_left_out_of_the_parameters_and_of_the_multiply_adds(tmp_path: Path, encoded: Any) -> None:
    """A perceptron 64→512→64, a classifier 64→128→2; the median text of dev has two tokens, so 3,200 texts of two."""
    view, recipe = encoded({**EN, "dev": [("the plot", "neg"), ("good film", "pos")]}, language="en"), RECIPES["mlp"]
    recipe = recipe.changed(encoder={"depth": 1}, train={"epochs": 1})
    train_seed(
        "mlp", recipe, resolve_threads(configure("mlp", recipe), recipe, None), view, None, 0, tmp_path / "model"
    )
    cost = measure(tmp_path / "model", view).cost
    weights = 2 * 64 * 512 + 64 * 128
    assert cost.parameters_without_embeddings == weights + 128 * 2 + 512 + 64 + 128 + 2
    assert cost.parameters - cost.parameters_without_embeddings == 64 * view.vocabulary
    assert cost.batch_macs == weights * 6_400 + 128 * 2 * 3_200


def test_the_operations_are_those_of_the_median_text(tmp_path: Path, encoded: Any) -> None:
    """The texts of dev have 1, 1 and 4 tokens, so the median text has one."""
    dev = [("plot", "neg"), ("film", "pos"), ("good good good film", "pos")]
    view, recipe = encoded({**EN, "dev": dev}, language="en"), RECIPES["mlp"].changed(train={"epochs": 1})
    config = resolve_threads(configure("mlp", recipe), recipe, None)
    train_seed("mlp", recipe, config, view, None, 0, tmp_path / "model")
    saved = load(tmp_path / "model")
    assert measure(tmp_path / "model", view).cost.flops == flops(saved.model, 1, saved.frame)


@pytest.mark.parametrize(("milliseconds", "predicted"), [(1.0, 512), (4.0, 250), (100.0, 64), (0.1, 512)])
def test_the_speed_of_a_slow_system_is_measured_on_fewer_texts(
    milliseconds: float, predicted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(measuring, "milliseconds", lambda *_, **__: milliseconds)
    monkeypatch.setattr(measuring, "predict", lambda _, texts, precision: seen.append(len(texts)))
    texts = TextBatches(
        Ragged.from_lengths(np.ones(600, np.int32), np.ones(600, np.int64)),
        prefix=[],
        suffix=[],
        max_length=4,
        pad_id=0,
        unk_id=1,
    )
    measuring.texts_per_second(None, texts, "fp32")
    assert seen == [predicted]
    measuring.texts_per_second(None, texts.part(np.arange(30)), "fp32")
    assert seen[1:] == [30]
