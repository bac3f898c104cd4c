"""Folder of a tiny random classifier with its tokenizer, written by the transformers library."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.support.tiny_bert import SPECIAL


def write_classifier(folder: Path, words: tuple[str, ...]) -> Path:
    """Write a classifier of three classes whose answers depend much on each token; return `folder`."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    vocabulary = [*SPECIAL, *words]
    config = BertConfig(vocab_size=len(vocabulary), initializer_range=0.5, num_labels=3, **sizes)
    torch.manual_seed(0)
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab={word: number for number, word in enumerate(vocabulary)}).save_pretrained(folder)
    return folder
