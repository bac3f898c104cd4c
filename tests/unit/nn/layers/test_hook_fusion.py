"""Hook fusion in the heads of CNLE, MHAL and DMSP: known answers, saved models and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from epigram.core.errors import ParameterError
from epigram.nn.heads.layer_ensemble import LayerEnsembleConfig, LayerEnsembleHead
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from epigram.recipes.registry import RECIPES
from tests.support.small_systems import build, recipe_of, texts_of

# Hook(l) = (0.4 l + 2.9 / l) / (N / 2)
HOOK = {1: [6.6], 2: [3.3, 2.25], 3: [2.2, 1.5, 13 / 9]}
# one text of one token; the embeddings, which are not fused, then three layers
STATES = [[5.0, 7.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
FUSED = [[6.6, 0.0], [3.3, 2.25], [2.2 + 13 / 9, 1.5 + 13 / 9]]  # of layers 1 to 1, 1 to 2, 1 to 3


def encoded() -> Encoded:
    one = torch.ones(1, 1, dtype=torch.int64)
    return Encoded(tuple(torch.tensor([[state]]) for state in STATES), Tokens(one, one.bool()))


def ensemble(**settings: Any) -> LayerEnsembleHead:
    """Return a head whose base classifiers return the mean state as logits."""
    encoder = Encoder()
    encoder.width, encoder.blocks = 2, nn.ModuleList(nn.Identity() for _ in range(3))
    head = LayerEnsembleConfig(hidden=2, **settings).build(DataSpec(vocabulary=2, classes=2, max_length=1), encoder)
    for classifier in head.classifiers:
        for layer in (classifier.token, classifier.out):
            layer.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    return head


def parts_of(head: LayerEnsembleHead, output: Encoded) -> Tensor:
    parts = head(output).parts
    assert parts is not None
    return parts[:, 0]


@pytest.mark.parametrize("mode", ["ensemble", "control"])
def test_a_classifier_reads_the_fusion_of_the_layers_up_to_its_own(mode: str) -> None:
    torch.testing.assert_close(parts_of(ensemble(mode=mode, fusion="hook"), encoded()), torch.tensor(FUSED))
    torch.testing.assert_close(parts_of(ensemble(mode=mode), encoded()), torch.tensor(STATES[1:]))


def test_a_single_classifier_reads_the_fusion_of_all_layers() -> None:
    torch.testing.assert_close(parts_of(ensemble(mode="last", fusion="hook"), encoded()), torch.tensor(FUSED[2:]))


def test_a_classifier_on_the_embeddings_has_no_layers_to_fuse() -> None:
    wanted = torch.tensor([STATES[0], *FUSED])
    torch.testing.assert_close(parts_of(ensemble(mode="deep", fusion="hook"), encoded()), wanted)


def test_dropping_the_last_layer_leaves_the_other_classifiers_as_they_were() -> None:
    head, whole = ensemble(mode="ensemble", fusion="hook"), encoded()
    head.drop(2)
    torch.testing.assert_close(parts_of(head, replace(whole, states=whole.states[:3])), torch.tensor(FUSED[:2]))


@pytest.mark.parametrize("kind", ["label_decoder", "attention_labeler"])
def test_a_head_reads_the_fusion_of_three_layers(kind: str) -> None:
    recipe = replace(recipe_of("transformer"), head={"kind": kind, "fusion": "hook"})
    model, texts = build(recipe).eval(), texts_of(recipe)
    with torch.no_grad():
        output = model.encode(texts.gather(np.arange(4)))
        first, *layers = output.states
        assert len(layers) == 3
        fused = sum(weight * layer for weight, layer in zip(HOOK[3], layers, strict=True))
        by_hook = model.head(output).logits
        model.head.config = replace(model.head.config, fusion="last")
        torch.testing.assert_close(by_hook, model.head(replace(output, states=(first, fused))).logits)
        assert (by_hook - model.head(output).logits).abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["label_decoder", "attention_labeler"])
@pytest.mark.parametrize("encoder", ["projected_bilstm", "char_bilstm", "embedding"])
def test_an_encoder_without_layers_is_refused(kind: str, encoder: str) -> None:
    recipe = replace(RECIPES["textcnn"], encoder={"kind": encoder}, head={"kind": kind, "fusion": "hook"})
    with pytest.raises(ParameterError, match=r"head\.fusion is 'hook', but this encoder has no layers to fuse"):
        build(recipe)


def test_the_setting_is_checked() -> None:
    recipe = replace(RECIPES["cnle"], head={"kind": "label_decoder", "fusion": "hok"})
    with pytest.raises(ParameterError, match=r"head\.fusion is 'hok'; expected 'last' or 'hook'"):
        build(recipe)
