"""Small versions of every registered system, and texts that they can learn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.recipe import Recipe
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES

VOCABULARY, CLASSES, MASK, MAX_LENGTH = 60, 3, 4, 24
LABELS, TOKEN_LABELS, CHARACTERS = ["a", "b", "c"], ["O", "a", "b", "c"], "0123456789"
SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"width": 32, "hidden": 48, "depth": 3},
    "semantic_perceptron": {"width": 16, "hidden": 32},
    "convolution": {"embedding": 16, "filters": 12},
    "bilstm": {"width": 32, "depth": 2, "dropout": 0.1},
    "projected_bilstm": {"embedding": 16, "width": 32},
    "char_bilstm": {
        "embedding": 24,
        "width": 24,
        "character_embedding": 8,
        "character_width": 8,
        "spelling": 8,
        "dropout": 0.2,
    },
    "embedding": {"width": 32},
    "region": {"width": 32},
    "global_local": {"embedding": 16, "filters": 12},
    "pretrained": {"small": {"width": 32, "hidden": 48, "depth": 2, "heads": 2}},
    "fast_text": {"width": 16, "buckets": 200},
    "dpcnn": {"embedding": 16, "filters": 12, "levels": 3},
    "vdcnn": {"embedding": 64, "filters": [64, 64, 64, 64], "hidden": 64, "k": 3},
    "universal_transformer": {"width": 32, "hidden": 48, "depth": 3},
    "sentence_encoder": {},
    "static_embedding": {"width": 32},
}
SMALL_HEADS: dict[str, dict[str, Any]] = {
    "convolution": {"filters": 16},
    "attention_labeler": {"hidden": 24, "text_hidden": 12},
    "tagger": {"dropout": 0.1},
    "linear_ngrams": {"buckets": 500},
}
NAMES = sorted(RECIPES)
ALIKE = {  # systems whose modules, or modules much like them, all occur in another system
    *("mhal_sent", "mhal_sent_tok", "mhal_tok", "mhal_zero", "mlp", "smsp", "ernie", "macbert"),
    *("transformer", "transformer_cor", "transformer_hook", "transformer_pos"),
    *("bert", "bert_hth", "bert_hth_paper", "bert_hth_pta", "bert_pta"),
    *("att_blstm", "dc", "smsp_e"),
}


REPEATED = ALIKE - {"bert_hth", "ernie", "macbert", "mlp", "smsp_e"}  # other systems have the same parts


def each_of(names: Iterable[str], alike: Iterable[str] = ()) -> list[Any]:
    """Return the names as parameters of a test that takes long; make test leaves out those of ALIKE and `alike`."""
    left_out = ALIKE | set(alike)
    return [pytest.param(name, marks=pytest.mark.extended) if name in left_out else name for name in names]


def distinct(names: Iterable[str]) -> list[Any]:
    """Return the same without REPEATED, for a test of parts that does not depend on how they are combined."""
    return each_of(name for name in names if name not in REPEATED)


def recipe_of(name: str) -> Recipe:
    recipe = RECIPES[name]
    if not recipe.encoder:
        return recipe
    head = SMALL_HEADS.get(recipe.head["kind"], {})
    return recipe.changed(encoder=SMALL[recipe.encoder["kind"]], head=head)


def frame_of(recipe: Recipe) -> TextTemplate:
    prompted = recipe.view.endswith("prompt")
    return TextTemplate(
        language="en",
        max_length=MAX_LENGTH,
        prefix_ids=[2, 10, MASK, 11, MASK] if prompted else [],
        suffix_ids=[3] if recipe.view.startswith("wordpiece") else [],
        pad_id=0,
        unk_id=1,
        mask_id=MASK,
        vocabulary=VOCABULARY,
        characters=CHARACTERS,
        token_labels=TOKEN_LABELS,
    )


def texts_of(recipe: Recipe, count: int = 32, seed: int = 0, device: str = "cpu") -> TextBatches:
    """Return random texts; about half of their tokens depend on the class; the characters of a token are two digits."""
    random, frame = np.random.default_rng(seed), frame_of(recipe)
    labels = np.arange(count) % CLASSES
    lengths = random.integers(1, 15, count)
    rows = [
        np.where(random.random(n) < 0.5, 20 + 10 * y + random.integers(0, 10, n), random.integers(5, 20, n))
        for n, y in zip(lengths, labels, strict=True)
    ]
    ids = np.concatenate(rows)
    digits = np.stack([ids // 10, ids % 10], axis=1).ravel() + 2
    return TextBatches(
        Ragged.from_lengths(ids.astype(np.int32), np.array(lengths)),
        prefix=frame.prefix_ids,
        suffix=frame.suffix_ids,
        max_length=MAX_LENGTH,
        pad_id=0,
        unk_id=1,
        labels=labels,
        token_labels=np.where(ids < 20, 0, ids // 10 - 1),
        characters=Ragged(digits, 2 * np.arange(len(ids) + 1)),
        device=device,
    )


def context_of(recipe: Recipe, *, multi: bool = False) -> DataSpec:
    weight = torch.where(torch.arange(VOCABULARY) % 3 == 0, 0.5, 1.0)
    return DataSpec(
        vocabulary=VOCABULARY,
        classes=CLASSES,
        max_length=MAX_LENGTH,
        labels=tuple(LABELS),
        token_labels=tuple(TOKEN_LABELS),
        characters=len(CHARACTERS) + 2,
        mask_id=MASK,
        prefix_ids=tuple(frame_of(recipe).prefix_ids),
        suffix_ids=tuple(frame_of(recipe).suffix_ids),
        pos_weight=weight,
        multi=multi,
    )


def build(recipe: Recipe, seed: int = 0, *, multi: bool = False) -> Any:
    torch.manual_seed(seed)
    return recipe.build(context_of(recipe, multi=multi))
