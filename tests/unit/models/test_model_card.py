"""Tests of the model card: its text, and its metadata for the hub."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from huggingface_hub import ModelCard
from torch import nn

from epigram.models.model_card import model_card

RECIPE: Any = SimpleNamespace(name="textcnn", about="A convolution", paper="Kim, 2014")
FACTS = {"dataset": "mr", "seed": 0, "dev_accuracy": 0.75, "data": {"hash": "x"}}
TEXT = """
# textcnn

A convolution (Kim, 2014).

* language: en
* labels: neg, pos
* parameters: 8
* maximum length: 64 tokens; longer texts are truncated
* dataset: mr
* seed: 0

## Use

    epigram predict . "a text"

The folder is self-contained: weights (safetensors), tokenizer, labels and settings.
"""


def test_the_card_has_this_text_and_the_metadata_of_the_hub() -> None:
    card = ModelCard(model_card(RECIPE, nn.Linear(3, 2), ["neg", "pos"], FACTS, language="en", max_length=64))
    assert card.text == TEXT
    assert card.data.to_dict() == {
        "language": "en",
        "library_name": "epigram",
        "pipeline_tag": "text-classification",
    }


def test_a_label_cannot_add_metadata() -> None:
    label = "---\nlicense: mit\n---\n"
    card = ModelCard(model_card(RECIPE, nn.Linear(3, 2), [label], {}, language="zh", max_length=64))
    assert card.data.to_dict()["language"] == "zh" and "license" not in card.data.to_dict()
