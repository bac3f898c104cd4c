"""Check that a checkpoint can be of the family that a system requires, as far as the files of its folder show it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from epigram.checkpoints.folders import checkpoint_folder
from epigram.core.files import read_json
from epigram.nn.pretrained.families import ARCHITECTURES, Family

# Published in the architecture of BERT for Chinese only: MacBERT, and RoBERTa as RoBERTa-wwm (Cui et al., 2020).
CHINESE_AS_BERT = ("macbert", "roberta")
CHINESE_CHARACTER = re.compile("[\u4e00-\u9fff]")
MIN_CHINESE = 1_000  # characters: Chinese vocabularies have thousands, and that of the English BERT has 244


def check_family(family: Family | None, model_type: str, checkpoint: str) -> None:
    """Raise ValueError if the files show that `checkpoint`, whose config.json has `model_type`, is not of `family`.

    Where the files of two families are alike, such as those of MacBERT and of a Chinese BERT, `family` is accepted.
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
