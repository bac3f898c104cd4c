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

ADJACENT = (2, 10, MASK, 11, MASK)  # the text begins 1 to the right of the last mask
COLON = (*ADJACENT, 12)  # 2 to the right, as in the templates
LIMITED = "systems.x: head: prompt reads the states of the masks, which do not depend on the text with this encoder"
SHORTENED = "systems.x: head: prompt needs an encoder with one state per token"
REFUSED = {
    "embedding": LIMITED,
    "fast_text": LIMITED,
    "dpcnn": SHORTENED,
    "vdcnn": SHORTENED,
    "sentence_encoder": SHORTENED,
    "static_embedding": SHORTENED,
}
FIRST = list(range(20, 29))  # two texts without a common token
SECOND = list(range(40, 49))


def built(encoder: dict[str, Any], prefix: tuple[int, ...], suffix: tuple[int, ...] = (), **settings: Any) -> Any:
    torch.manual_seed(0)
    recipe = Recipe(name="x", about="", paper="", view="token", encoder=encoder, head={"kind": "prompt", **settings})
    context = DataSpec(
        vocabulary=VOCABULARY, classes=3, max_length=MAX_LENGTH, characters=len(CHARACTERS) + 2, mask_id=MASK,
        prefix_ids=prefix, suffix_ids=suffix, pos_weight=torch.ones(VOCABULARY),
    )  # fmt: skip
    return recipe.build(context, "systems.x").eval()


def logits(model: Any, prefix: tuple[int, ...], *texts: list[int], suffix: tuple[int, ...] = ()) -> torch.Tensor:
    ids = Ragged.from_lists(texts, np.int32)
    digits = np.stack([ids.values // 10, ids.values % 10], axis=1).ravel() + 2
    batches = TextBatches(
        ids, prefix=list(prefix), suffix=list(suffix), max_length=MAX_LENGTH, pad_id=0, unk_id=1,
        characters=Ragged(digits, 2 * np.arange(len(ids.values) + 1)),
    )  # fmt: skip
    with torch.inference_mode():
        return model(batches.gather(np.arange(len(texts)))).logits


@pytest.mark.parametrize("kind", encoders.KINDS)
def test_the_logits_depend_on_the_text_or_the_encoder_is_refused(kind: str) -> None:
    encoder = {"kind": kind, **SMALL[kind]}
    if kind in REFUSED:
        with pytest.raises(ParameterError, match=REFUSED[kind]):
            built(encoder, COLON)
        return
    first, second = logits(built(encoder, COLON), COLON, FIRST, SECOND)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("encoder", "prefix", "reach", "distance"),
    [
        ({"kind": "semantic_perceptron", "order": "none"}, ADJACENT, 0, 1),
        ({"kind": "region", "radius": 1}, COLON, 1, 2),
        ({"kind": "region", "radius": 0}, ADJACENT, 0, 1),
        ({"kind": "convolution", "sizes": [2, 3]}, COLON, 1, 2),
        ({"kind": "convolution", "sizes": [1]}, ADJACENT, 0, 1),
        ({"kind": "convolution", "sizes": [4]}, (*COLON, 13), 2, 3),
    ],
)
def test_a_window_that_ends_before_the_text_is_refused(
    encoder: dict[str, Any], prefix: tuple[int, ...], reach: int, distance: int
) -> None:
    said = f"at most {reach} tokens to its right, and the text is {distance} to the right of the nearest mask that"
    with pytest.raises(ParameterError, match=said):
        built(encoder, prefix)


@pytest.mark.parametrize(
    ("encoder", "prefix", "read"),
    [
        ({"kind": "region", "radius": 3}, COLON, 2),
        ({"kind": "region", "radius": 1}, ADJACENT, 1),
        ({"kind": "convolution", "sizes": [2, 4]}, COLON, 1),
        ({"kind": "convolution", "sizes": [2]}, ADJACENT, 1),
        ({"kind": "convolution", "sizes": [5]}, ADJACENT, 2),
    ],
)
def test_a_window_reads_only_the_first_tokens_of_a_text(
    encoder: dict[str, Any], prefix: tuple[int, ...], read: int
) -> None:
    model = built(encoder, prefix)
    after = [*FIRST[:read], *SECOND[read:]]  # differs from FIRST outside of the window
    inside = [*FIRST[: read - 1], SECOND[0], *FIRST[read:]]  # differs in the last token of the window
    base, same, other = logits(model, prefix, FIRST, after, inside)
    assert torch.equal(base, same) and not torch.equal(base, other)


NEAR, FAR = (MASK, 10), (10, 11, 12, MASK)  # after the text: the mask is 1 or 4 to the right of its last token


@pytest.mark.parametrize(
    ("encoder", "suffix", "reach"),
    [
        ({"kind": "region", "radius": 3}, FAR, 3),
        ({"kind": "convolution", "sizes": [2, 8]}, FAR, 3),  # 3 to the left and 4 to the right
        ({"kind": "convolution", "sizes": [2]}, NEAR, 0),
        ({"kind": "embedding"}, NEAR, 0),
    ],
)
def test_a_window_that_begins_after_the_text_is_refused(
    encoder: dict[str, Any], suffix: tuple[int, ...], reach: int
) -> None:
    said = f"at most {reach} tokens to its left, and the text is {suffix.index(MASK) + 1} to the left of the nearest"
    with pytest.raises(ParameterError, match=said):
        built(encoder, (2,), suffix)


@pytest.mark.parametrize(
    ("encoder", "suffix"),
    [
        ({"kind": "region", "radius": 4}, FAR),
        ({"kind": "convolution", "sizes": [9]}, FAR),
        ({"kind": "convolution", "sizes": [3]}, NEAR),
    ],
)
def test_a_mask_after_the_text_reads_its_last_token(encoder: dict[str, Any], suffix: tuple[int, ...]) -> None:
    model = built(encoder, (2,), suffix)
    texts = FIRST, [SECOND[0], *FIRST[1:]], [*FIRST[:-1], SECOND[0]]  # another first token, another last token
    base, same, other = logits(model, (2,), *texts, suffix=suffix)
    assert torch.equal(base, same) and not torch.equal(base, other)


@pytest.mark.parametrize(("gamma", "prefix", "suffix"), [(1.0, COLON, ()), (0.0, (2, MASK), (10, 11, 12, MASK))])
def test_a_mask_of_weight_zero_does_not_count(gamma: float, prefix: tuple[int, ...], suffix: tuple[int, ...]) -> None:
    """The text is near one mask, which the weight γ removes: the first mask with 0, the second one with 1."""
    encoder = {"kind": "region", "radius": 3}
    built(encoder, prefix, suffix, gamma=0.5)
    built(encoder, prefix, suffix, gamma=1.0 - gamma)
    with pytest.raises(ParameterError, match=LIMITED):
        built(encoder, prefix, suffix, gamma=gamma)
