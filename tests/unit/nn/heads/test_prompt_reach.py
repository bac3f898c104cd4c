"""Tests that the masks of a prompt depend on the text with every encoder, or the prompt head is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.models.batches import TextBatches
from epigram.models.recipe import Recipe
from epigram.nn import encoders
from epigram.nn.layers.types import DataSpec
from tests.support.small_systems import CHARACTERS, MASK, MAX_LENGTH, SMALL, VOCABULARY

COLON = (2, 10, MASK, 11, MASK, 12)  # as in the templates
LIMITED = "systems.x: head: prompt reads the states of the masks, which depend on few tokens of the text with "
SHORTENED = "systems.x: head: prompt needs an encoder with one state per token"
REFUSED = {
    **{kind: LIMITED + kind for kind in ("embedding", "fast_text", "convolution", "region", "semantic_perceptron")},
    "dpcnn": SHORTENED,
    "vdcnn": SHORTENED,
    "sentence_encoder": SHORTENED,
    "static_embedding": SHORTENED,
}
FIRST = list(range(20, 29))  # two texts without a common token
SECOND = list(range(40, 49))


def built(encoder: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    recipe = Recipe(name="x", about="", paper="", view="token", encoder=encoder, head={"kind": "prompt"})
    context = DataSpec(
        vocabulary=VOCABULARY, classes=3, max_length=MAX_LENGTH, characters=len(CHARACTERS) + 2, mask_id=MASK,
        prefix_ids=COLON, pos_weight=torch.ones(VOCABULARY),
    )  # fmt: skip
    return recipe.build(context, "systems.x").eval()


def logits(model: Any, *texts: list[int]) -> torch.Tensor:
    ids = Ragged.from_lists(texts, np.int32)
    digits = np.stack([ids.values // 10, ids.values % 10], axis=1).ravel() + 2
    batches = TextBatches(
        ids, prefix=list(COLON), suffix=[], max_length=MAX_LENGTH, pad_id=0, unk_id=1,
        characters=Ragged(digits, 2 * np.arange(len(ids.values) + 1)),
    )  # fmt: skip
    with torch.inference_mode():
        return model(batches.gather(np.arange(len(texts)))).logits


@pytest.mark.parametrize("kind", encoders.KINDS)
def test_the_logits_depend_on_the_text_or_the_encoder_is_refused(kind: str) -> None:
    encoder = {"kind": kind, **SMALL[kind]}
    if kind in REFUSED:
        with pytest.raises(ParameterError, match=REFUSED[kind]):
            built(encoder)
        return
    first, second = logits(built(encoder), FIRST, SECOND)
    assert not torch.equal(first, second)
