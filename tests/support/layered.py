"""Model whose layers are lookup tables, so that each layer's output and a pruned model's predictions are known.

A text is one word, a number from 0 to 7; the words 0 to 3 are of class 0, the others of class 1. A layer looks up a
code of the word: (1, 0) votes for class 0 and (0, 1) for class 1. The head uses the code of the last layer as its
logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.nn.heads.layer_ensemble import LayerEnsembleConfig, LayerEnsembleHead
from epigram.nn.heads.linear import LinearConfig, LinearHead
from epigram.nn.heads.tagger import TaggerConfig, TaggerHead
from epigram.nn.layers.encoder import Encoder, EncoderSettings
from epigram.nn.layers.types import DataSpec, Encoded, Tokens

FIRST = 2  # id of the word 0; 0 is padding and 1 unknown
WORDS = np.arange(8)
CLASS = WORDS // 4
CONTEXT = DataSpec(vocabulary=FIRST + len(WORDS), classes=2, max_length=8)
RIGHT = [0, 0, 0, 0, 1, 1, 1, 1]  # the class that each word's code votes for
OPPOSITE = [1, 1, 1, 1, 0, 0, 0, 0]
ONE_WRONG = [0, 0, 0, 1, 1, 1, 1, 1]
TWO_WRONG = [0, 0, 1, 1, 1, 1, 1, 1]
SILENT = [0] * 8  # the same code for every word
CODES = torch.eye(2)


class Table(nn.Module):
    """Layer with a code for each word, and unused weights whose number identifies the layer."""

    def __init__(self, spoken: Sequence[int], weights: int) -> None:
        super().__init__()
        self.spoken = list(spoken)
        self.register_buffer("codes", torch.cat([torch.zeros(FIRST, 2), CODES[self.spoken]]))
        self.codes: torch.Tensor
        self.idle = nn.Parameter(torch.zeros(weights))


class Stack(Encoder):
    """Layers that do not read each other; they have 1, 10, 100, … unused weights."""

    def __init__(self, layers: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.width, self.config = 2, EncoderSettings()
        self.blocks = nn.ModuleList(Table(spoken, 10**n) for n, spoken in enumerate(layers))

    def forward(self, tokens: Tokens) -> Encoded:
        tables: list[Any] = list(self.blocks)
        codes = [table.codes[tokens.ids] for table in tables]
        return Encoded((torch.zeros_like(codes[0]), *codes), tokens)


def model_of(*layers: Sequence[int], ensemble: bool = False, deep: bool = False) -> Any:
    """Return a classifier that predicts by its last layer or, with `ensemble`, by a vote of its layers.

    With `deep`, it also has a classifier on the embeddings, which are zero, and on every layer.
    """
    stack = Stack(layers)
    head = (
        _classifiers(stack, "deep" if deep else "ensemble")
        if ensemble or deep
        else LinearHead(LinearConfig(dropout=0.0), CONTEXT, stack)
    )
    if isinstance(head, LinearHead):
        head.out.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    return NeuralClassifier(stack, head).eval()


def tagger_of(*layers: Sequence[int]) -> Any:
    """Return a classifier that uses the code of a word in the last layer for its token label and for the text."""
    stack = Stack(layers)
    head = TaggerHead(TaggerConfig(dropout=0.0), replace(CONTEXT, token_labels=("O", "X")), stack)
    for layer in (head.out, head.token):
        layer.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    return NeuralClassifier(stack, head).eval()


def _classifiers(stack: Stack, mode: Any) -> LayerEnsembleHead:
    head = LayerEnsembleConfig(mode=mode, hidden=2).build(CONTEXT, stack)
    for classifier in head.classifiers:
        for layer in (classifier.token, classifier.out):
            layer.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    return head


def texts_of(words: Any = WORDS, labels: Any = None, times: Any = 1) -> TextBatches:
    """Return texts of one word repeated `times` times, with `labels` or, by default, the classes of their words."""
    words = np.asarray(words)
    counts = np.broadcast_to(times, words.shape)
    return TextBatches(
        Ragged.from_lengths(FIRST + np.repeat(words, counts).astype(np.int32), counts), prefix=[], suffix=[],
        max_length=8, pad_id=0, unk_id=1, labels=CLASS[words] if labels is None else np.asarray(labels),
    )  # fmt: skip


def layers_of(model: Any) -> list[list[int]]:
    """Return the class that each layer of a model gives to each word."""
    return [block.spoken for block in model.encoder.blocks]
