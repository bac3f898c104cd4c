"""Part-of-speech weights of encoders without attention: token vectors are multiplied by the weights of their tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.errors import ParameterError
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.recipes.registry import RECIPES
from tests.support.small_systems import SMALL, context_of, recipe_of, texts_of

# system: an encoder without attention
SYSTEMS = {
    "att_blstm": "bilstm",
    "cnle": "projected_bilstm",
    "mhal_sent": "char_bilstm",
    "leam": "embedding",
    "exam": "region",
    "encoder1_encoder2": "global_local",
    "fast_text": "fast_text",
    "textcnn": "convolution",
    "dpcnn": "dpcnn",
    "vdcnn": "vdcnn",
    "dmsp": "semantic_perceptron",
}


def encoder_of(name: str, setting: str, *, characters: int = 0) -> Any:
    recipe = recipe_of(name).changed(encoder={"pos_weight": setting})
    model: Any = recipe.build(replace(context_of(recipe), characters=characters))
    return model.encoder.eval()


def tokens_of(name: str) -> Tokens:
    return texts_of(recipe_of(name)).gather(np.arange(8))


def test_every_encoder_with_weights_in_its_vectors_is_tested() -> None:
    assert set(SYSTEMS.values()) == set(SMALL) - {
        "transformer",
        "universal_transformer",
        "pretrained",
        "sentence_encoder",
        "static_embedding",
    }
    assert all(RECIPES[name].encoder["kind"] == kind for name, kind in SYSTEMS.items())


@pytest.mark.parametrize("name", SYSTEMS)
@torch.no_grad()
def test_the_states_are_those_of_a_table_whose_rows_are_multiplied_by_the_weights(name: str) -> None:
    weighted, plain = encoder_of(name, "embedding"), encoder_of(name, "none")
    tokens = tokens_of(name)
    plain.load_state_dict(weighted.state_dict(), strict=False)
    unscaled = plain(tokens).last
    weight = context_of(recipe_of(name)).pos_weight
    assert weight is not None and set(weight.tolist()) == {0.5, 1.0}
    plain.embedding.token.weight.mul_(weight.unsqueeze(1))
    states = weighted(tokens).last
    assert torch.equal(states, plain(tokens).last)  # products with 0.5 and 1 are exact
    assert not torch.equal(states, unscaled)


@torch.no_grad()
def test_a_vector_of_a_word_and_its_characters_is_multiplied_as_a_whole() -> None:
    weighted, plain = (encoder_of("mhal_sent", setting, characters=12) for setting in ("embedding", "none"))
    tokens = tokens_of("mhal_sent")
    plain.load_state_dict(weighted.state_dict(), strict=False)
    w = torch.where(tokens.ids % 3 == 0, 0.5, 1.0).unsqueeze(-1)
    torch.testing.assert_close(weighted(tokens).states[0], w * plain(tokens).states[0])


def test_without_the_setting_nothing_is_added_to_the_weights() -> None:
    assert not any("pos_weight" in name for name in encoder_of("textcnn", "none").state_dict())


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_view_without_a_table_is_refused(name: str) -> None:
    recipe = recipe_of(name).changed(encoder={"pos_weight": "embedding"})
    with pytest.raises(ParameterError, match=r"encoder\.pos_weight is 'embedding', but the view has no part-of-speech"):
        recipe.build(replace(context_of(recipe), pos_weight=None))


def test_a_placement_in_attention_is_refused() -> None:
    recipe = recipe_of("textcnn").changed(encoder={"pos_weight": "after"})
    with pytest.raises(ParameterError, match=r"encoder\.pos_weight is 'after'; expected 'none' or 'embedding'"):
        recipe.build(DataSpec(vocabulary=9, classes=2, max_length=8))
