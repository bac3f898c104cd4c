"""Families of pretrained encoders: their architectures, the check of a checkpoint's, and their small encoders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from epigram.checkpoints.folders import checkpoint_folder
from epigram.core.config_types import Positive, Range, Strict, validate_as
from epigram.core.effects import Only
from epigram.core.errors import ParameterError
from epigram.core.files import read_json
from epigram.nn.layers.embedding import Positions
from epigram.nn.layers.types import DataSpec

Family = Literal["bert", "macbert", "roberta", "albert", "ernie", "xlnet"]

# The values of model_type that checkpoints of a family are published with; a small encoder's value is first.
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


# Published in the architecture of BERT for Chinese only: MacBERT, and RoBERTa as RoBERTa-wwm (Cui et al., 2020).
CHINESE_AS_BERT = ("macbert", "roberta")
CHINESE_CHARACTER = re.compile("[\u4e00-\u9fff]")
MIN_CHINESE = 1_000  # characters: Chinese vocabularies have thousands, the English BERT's has 244


def check_family(family: Family | None, model_type: str, checkpoint: str) -> None:
    """Raise ValueError if the files show that `checkpoint`, whose config.json has `model_type`, is not of `family`.

    Where two families have similar files, such as MacBERT and a Chinese BERT, `family` is accepted.
    """
    if family is None:
        return
    given = f"encoder.family is {family!r}, but the view's checkpoint {checkpoint!r} has the model_type {model_type}"
    advice = f"use a view with a checkpoint of {family}, or the system bert, which accepts any family"
    if model_type not in ARCHITECTURES[family]:
        raise ValueError(f"{given}; expected {' or '.join(ARCHITECTURES[family])}: {advice}")
    if model_type == "bert" and family in CHINESE_AS_BERT:
        found = count_chinese_characters(checkpoint_folder(checkpoint))
        if found is not None and found < MIN_CHINESE:
            raise ValueError(
                f"{given} and only {found} Chinese characters in its vocabulary; {family} exists in this architecture "
                f"for Chinese only: {advice}"
            )


def count_chinese_characters(folder: Path) -> int | None:
    """Return the number of Chinese characters in the vocabulary of a checkpoint; None if the folder has none."""
    tokens: Any = None
    if (folder / "tokenizer.json").is_file():
        values = read_json(folder / "tokenizer.json")
        model = values.get("model") if isinstance(values, dict) else None
        tokens = model.get("vocab") if isinstance(model, dict) else None
    elif (folder / "vocab.txt").is_file():
        tokens = (folder / "vocab.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    if not isinstance(tokens, dict | list):
        return None
    return sum(1 for token in tokens if isinstance(token, str) and CHINESE_CHARACTER.fullmatch(token))
