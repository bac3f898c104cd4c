"""Folder of a tiny random BERT, written without the transformers library."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from epigram.nn.pretrained.bert import BertConfig, random_bert

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_bert(folder: Path, words: tuple[str, ...], positions: int = 64) -> Path:
    """Write a model of one layer with a vocabulary of the special tokens and `words` to the new `folder`.

    It reads as many tokens as it has `positions`.
    """
    folder.mkdir()
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=positions,
    )
    torch.manual_seed(0)
    save_file(random_bert(config).state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *words]) + "\n")
    return folder
