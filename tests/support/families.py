"""Tiny random encoders of the transformers library, and inputs for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from epigram.models.classifier import NeuralClassifier
from epigram.models.recipe import Recipe
from epigram.nn.encoders.pretrained import PretrainedEncoder
from epigram.nn.layers.types import DataSpec, Tokens

VOCABULARY, PAD, MASK, DEPTH = 40, 1, 4, 3
PREFIX = (2, 10, MASK, 11, MASK)
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "pad_token_id": PAD,
    "initializer_range": 0.3,  # makes attention far from uniform
}
LAYERS = {"dim": 16, "n_layers": DEPTH, "n_heads": 2, "hidden_dim": 24}  # DistilBERT's names of the sizes
ENDS = {"bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": SIZES,
    "roberta": SIZES,
    "xlm-roberta": SIZES,
    "camembert": SIZES,
    "ernie": SIZES,
    "albert": {**SIZES, "embedding_size": 8},
    "electra": {**SIZES, "embedding_size": 8},
    "distilbert": {**SIZES, **LAYERS},
    "modernbert": {**SIZES, **ENDS, "local_attention": 8, "global_attn_every_n_layers": 2},
}
OTHERS: dict[str, dict[str, Any]] = {
    "xlnet": {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 24},
    "deberta": SIZES,
    "deberta-v2": SIZES,
    "roformer": {**SIZES, "embedding_size": 16},
    "mpnet": SIZES,
    "funnel": {
        "architectures": ["FunnelModel"],
        "block_sizes": [1, 1],
        "d_model": 16,
        "n_head": 2,
        "d_head": 8,
        "d_inner": 24,
    },
    "rembert": {**SIZES, "input_embedding_size": 8},
}


def context(**changes: Any) -> DataSpec:
    """Return a DataSpec; `changes` can set a checkpoint or a prompt."""
    return DataSpec(**{"vocabulary": VOCABULARY, "classes": 2, "max_length": 32, "mask_id": MASK, **changes})


def checkpoint(family: str, folder: Path, sizes: dict[str, Any] | None = None) -> Path:
    """Return a folder with a tiny random model of `family`, saved by the transformers library."""
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    values = {"vocab_size": VOCABULARY, **(sizes or FAMILIES[family])}
    AutoModel.from_config(AutoConfig.for_model(family, **values)).save_pretrained(folder)
    return folder


def texts(lengths: tuple[int, ...] = (20, 9, 14), seed: int = 0, prefix: tuple[int, ...] = ()) -> Tokens:
    """Return random padded token ids, each text preceded by `prefix`."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths) + len(prefix)
    valid = torch.arange(longest) < torch.tensor(lengths)[:, None] + len(prefix)
    ids = torch.randint(12, VOCABULARY, valid.shape, generator=generator)
    ids[:, : len(prefix)] = torch.tensor(prefix)
    return Tokens(ids.masked_fill(~valid, PAD), valid)


def built(
    folder: Path, head: dict[str, Any] | None = None, **encoder: Any
) -> tuple[NeuralClassifier, PretrainedEncoder]:
    """Return a model in eval mode on the checkpoint in `folder`, and its encoder."""
    torch.manual_seed(1)
    recipe = recipe_of(head, **encoder)
    model: Any = recipe.build(context(checkpoint=str(folder), prefix_ids=PREFIX)).eval()
    return model, model.encoder


def recipe_of(head: dict[str, Any] | None = None, **encoder: Any) -> Recipe:
    """Return a recipe with a pretrained encoder."""
    return Recipe(
        name="x", about="", paper="", view="", encoder={"kind": "pretrained", **encoder},
        head=head or {"kind": "linear", "pool": "first"},
    )  # fmt: skip
