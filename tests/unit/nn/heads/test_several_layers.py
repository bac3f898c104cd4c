"""Tests of a linear head that reads several layers: which ones, in which order, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.effects import unused
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.models.predict import predict
from epigram.models.recipe import Recipe
from epigram.models.serialization import load
from epigram.nn.encoders.embedding import EmbeddingConfig
from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.heads.linear import LinearConfig
from epigram.nn.heads.tagger import TaggerConfig
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import TrainingConfig
from epigram.training.fitters.frozen_classifier import encode
from tests.support.layered import CONTEXT, Stack
from tests.support.trained import train_seed

THREE = Stack([[0] * 8, [1] * 8])  # with the embeddings, three layers of width 2
VALID = torch.tensor([[True, True], [True, False]])
STATES = [torch.tensor([[[n, 1.0], [n + 2, 3.0]], [[n, 5.0], [99.0, 99.0]]]) for n in (10.0, 20.0, 30.0)]
MEANS = [[[n + 1, 2.0], [n, 5.0]] for n in (10.0, 20.0, 30.0)]  # of the valid tokens
SMALL = Recipe(name="mine", about="", paper="", view="token", model={"kind": "frozen_classifier"},
               encoder={"kind": "transformer", "width": 8, "heads": 2, "hidden": 8, "depth": 3})  # fmt: skip


def text_states(layers: int) -> torch.Tensor:
    """Return what the linear layer reads of STATES."""
    head: Any = LinearConfig(layers=layers).build(CONTEXT, THREE).eval()
    states = head.text_states(Encoded(tuple(STATES), Tokens(torch.zeros(2, 2, dtype=torch.long), VALID)))
    assert states.shape[1] == head.out.in_features
    return states


@pytest.mark.parametrize(("layers", "read"), [(1, [2]), (2, [1, 2]), (3, [0, 1, 2]), (9, [0, 1, 2])])
def test_the_last_layers_are_side_by_side(layers: int, read: list[int]) -> None:
    wanted = np.concatenate([MEANS[layer] for layer in read], 1)
    assert text_states(layers).tolist() == wanted.tolist()


def test_a_dropped_layer_is_not_read() -> None:
    """With two of three states left, a head of two reads both, and a head of three forgets the weights of the first."""
    for layers in (2, 3):
        head: Any = LinearConfig(layers=layers).build(CONTEXT, THREE).eval()
        before = head.out.weight.detach().clone()
        head.drop(0)
        states = head.text_states(Encoded(tuple(STATES[1:]), Tokens(torch.zeros(2, 2, dtype=torch.long), VALID)))
        assert states.tolist() == np.concatenate(MEANS[1:], 1).tolist()
        assert torch.equal(head.out.weight, before[:, -4:]) and head.out(states).shape == (2, 2)


@pytest.mark.parametrize("settings", [{"pool": "attention"}, {"fusion": "hook"}])
def test_what_reads_one_state_is_refused_with_several_layers(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"head\.layers is 2"):
        LinearConfig(layers=2, **settings).check(CONTEXT, TransformerConfig(width=8))


def test_a_tagger_reads_one_layer() -> None:
    context, encoder = replace(CONTEXT, token_labels=("O", "X")), TransformerConfig(width=8, heads=2)
    with pytest.raises(ValueError, match=r"head\.layers is 2, but head tagger"):
        TaggerConfig(layers=2).check(context, encoder)


@pytest.mark.parametrize(("encoder", "known"), [(EmbeddingConfig(width=8), True), (TransformerConfig(width=8), False)])
def test_several_layers_of_an_encoder_without_layers_have_no_effect(encoder: Any, *, known: bool) -> None:
    assert ("head.layers" in unused(LinearConfig(layers=2), "head", {"encoder": encoder})) == known


@pytest.mark.parametrize("name", ["embedding_linear", "hybrid_linear"])
def test_the_linear_systems_read_the_last_four_layers(name: str) -> None:
    recipe = RECIPES[name].changed(encoder={"small": {"width": 8, "heads": 2, "hidden": 8, "depth": 6}})
    model = recipe.build(DataSpec(vocabulary=9, classes=2, max_length=8))
    assert model.head.out.in_features == 4 * 8


@pytest.mark.parametrize("kind", ["linear", "linear_ngrams"])
def test_a_saved_model_reads_the_layers_that_it_was_fitted_on(
    kind: str, encoded: Callable[..., View], tmp_path: Path
) -> None:
    rows = {part: [("good film", "pos"), ("bad film", "neg")] * 4 for part in ("train", "dev", "test")}
    view = encoded(rows, language="en")
    recipe = SMALL.changed(head={"kind": kind, "layers": 2})
    train_seed("mine", recipe, TrainingConfig(threads=1), view, None, 0, tmp_path / "model")
    saved = load(tmp_path / "model")
    texts: Any = batches_of(view, "test", saved.frame)
    assert encode(saved.model, texts).shape == (8, 16)
    assert (predict(saved.model, texts).logits.argmax(1) == view.split("test").labels).all()
