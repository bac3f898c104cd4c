"""Families of pretrained encoders: their architectures, and their small encoders for a view without a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from epigram.core.config_types import Positive, Range, Strict, validate_as
from epigram.core.effects import Only
from epigram.core.errors import ParameterError
from epigram.nn.layers.embedding import Positions
from epigram.nn.layers.types import DataSpec

Family = Literal["bert", "macbert", "roberta", "albert", "ernie", "xlnet"]

# The values of model_type that checkpoints of a family are published with; that of a small encoder is first.
ARCHITECTURES: dict[Family, tuple[str, ...]] = {
    "bert": ("bert",),
    "macbert": ("bert",),
    "roberta": ("roberta", "xlm-roberta", "camembert", "bert"),  # bert: RoBERTa-wwm
    "albert": ("albert",),
    "ernie": ("ernie", "bert"),  # bert: ERNIE 1.0 and 2.0
    "xlnet": ("xlnet",),
}

SMALL_KEY = "encoder.small"  # key of a small encoder's sizes in a system of params.yaml


@dataclass(frozen=True, kw_only=True)
class SmallSizes(Strict):
    """Sizes of an encoder trained from scratch."""

    width: Positive = 128
    depth: Positive = 4
    heads: Annotated[Positive, Only("encoder.attention", "dot")] = 4
    hidden: Positive = 256
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.1
    positions: Annotated[Positions, Only("encoder.family", None)] = "learned"
    embedding_norm: Annotated[bool, Only("encoder.family", None)] = True


def parse_sizes(small: Mapping[str, Any]) -> SmallSizes:
    """Return `small` as sizes.

    Raises ValueError instead of ParameterError: only the caller that builds the encoder knows the name of its system.
    """
    try:
        return validate_as(SmallSizes, dict(small), SMALL_KEY)
    except ParameterError as error:
        raise ValueError(str(error).replace("params.yaml: ", "")) from None


def small_config(family: Family, small: Mapping[str, Any], context: DataSpec) -> dict[str, Any]:
    """Return the transformers config of a small encoder of `family`, for the data's vocabulary and maximum length.

    Raises ValueError if `small` has an unknown or invalid size.
    """
    sizes = parse_sizes(small)
    common = {"model_type": ARCHITECTURES[family][0], "vocab_size": context.vocabulary, "pad_token_id": 0}
    if family == "xlnet":  # relative positions; no memory of earlier texts
        return {
            **common,
            "d_model": sizes.width,
            "n_layer": sizes.depth,
            "n_head": sizes.heads,
            "d_inner": sizes.hidden,
            "dropout": sizes.dropout,
            "mem_len": None,
        }
    config = {
        **common,
        "hidden_size": sizes.width,
        "num_hidden_layers": sizes.depth,
        "num_attention_heads": sizes.heads,
        "intermediate_size": sizes.hidden,
        "hidden_dropout_prob": sizes.dropout,
        "attention_probs_dropout_prob": sizes.dropout,
        "max_position_embeddings": context.max_length + 1,  # RoBERTa's positions start at 1; 0 is for padding
    }
    # ALBERT's token vectors are narrower than its hidden states
    return {**config, "embedding_size": max(1, sizes.width // 2)} if family == "albert" else config
