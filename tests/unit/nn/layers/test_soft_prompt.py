"""Tests of the soft prompt: it starts as the words of the prompt, learns, and does not change the text's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from epigram.core.errors import ParameterError
from epigram.models.recipe import Recipe
from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.heads.prompt import SoftPrompt
from epigram.nn.layers.types import Tokens
from tests.support.families import FAMILIES, MASK, PREFIX, VOCABULARY, built, checkpoint, context, texts

LABELS = torch.tensor([0, 1, 0])
TEXTS = texts(prefix=PREFIX)
WORDS = [2, 10, 11]  # of the prompt


def prompt_model(encoder: dict[str, Any], soft: bool) -> Any:
    torch.manual_seed(1)
    recipe = Recipe(name="x", about="", paper="", view="", encoder=encoder, head={"kind": "prompt", "soft": soft})
    return recipe.build(context(prefix_ids=PREFIX), "systems.x").eval()


ENCODERS: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "transformer", "width": 16, "hidden": 24},
    "correlation": {"kind": "transformer", "width": 16, "hidden": 24, "attention": "correlation"},
    "small": {"kind": "pretrained", "small": {"width": 16, "hidden": 24}},
}


def pair(kind: str, tmp_path: Path) -> tuple[Any, Any]:
    """Return the same model with a hard and with a soft prompt."""
    if kind in ENCODERS:
        return prompt_model(ENCODERS[kind], False), prompt_model(ENCODERS[kind], True)
    folder = checkpoint(kind, tmp_path)
    return tuple(built(folder, {"kind": "prompt", "soft": soft})[0] for soft in (False, True))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", [*ENCODERS, *FAMILIES])
def test_starts_as_the_words_and_learns_apart_from_them(kind: str, tmp_path: Path) -> None:
    hard, soft = pair(kind, tmp_path)
    torch.testing.assert_close(soft(TEXTS).logits, hard(TEXTS).logits, atol=1e-6, rtol=1e-5)
    soft(TEXTS, LABELS).loss.backward()
    vectors: Tensor = soft.head.prompt.vectors
    assert vectors.shape[0] == len(WORDS) and (vectors.grad.abs().sum(1) > 0).all()
    words: Tensor = soft.encoder.token_table.weight.grad
    assert (words[WORDS] == 0).all() and words[MASK].abs().sum() > 0 and words[12:].abs().sum() > 0
    with torch.no_grad():
        vectors.add_(1.0 + torch.rand(vectors.shape))
    assert (soft(TEXTS).logits - hard(TEXTS).logits).abs().max() > 1e-6


@pytest.mark.parametrize("kind", ["transformer", "roberta"])
@torch.no_grad()
def test_padding_does_not_show(kind: str, tmp_path: Path) -> None:
    _, soft = pair(kind, tmp_path)
    soft.head.prompt.vectors.add_(1.0)
    alone = Tokens(TEXTS.ids[1:2, :14], TEXTS.valid[1:2, :14])
    torch.testing.assert_close(soft(alone).logits[0], soft(TEXTS).logits[1], atol=2e-5, rtol=1e-4)


@torch.no_grad()
def test_masks_and_the_same_word_in_a_text_keep_their_vectors() -> None:
    table = torch.nn.Embedding(VOCABULARY, 3)
    prompt = SoftPrompt(PREFIX, MASK, table)
    prompt.vectors.zero_()
    echo = Tokens(TEXTS.ids.index_fill(1, torch.tensor([len(PREFIX)]), 10), TEXTS.valid)
    vectors = prompt(echo, table).vectors
    assert vectors is not None and (vectors[:, [0, 1, 3]] == 0).all()
    assert torch.equal(vectors[:, [2, 4]], table(echo.ids)[:, [2, 4]])
    assert torch.equal(vectors[:, 5:], table(echo.ids)[:, 5:])


def test_a_transformer_reads_given_vectors() -> None:
    encoder = TransformerConfig(width=16, hidden=24).build(context()).eval()
    given = Tokens(torch.zeros_like(TEXTS.ids), TEXTS.valid, encoder.token_table(TEXTS.ids))
    torch.testing.assert_close(encoder(given).last, encoder(TEXTS).last)


def test_a_soft_prompt_without_a_prompt_is_refused() -> None:
    recipe = Recipe(
        name="x", about="", paper="", view="", encoder=ENCODERS["transformer"], head={"kind": "prompt", "soft": True}
    )
    with pytest.raises(ParameterError, match="prompt needs a view with prompt: true"):
        recipe.build(context(vocabulary=VOCABULARY, mask_id=None), "systems.x")
