"""The attention of a model to the words of a text; CNLE and MHAL have an attention for each label.

Attention is no measure of importance by itself (Jain and Wallace, Attention is not Explanation, 2019). Its scores have
no sign; they are shares that sum to 1 together with the share of prompt and special tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from epigram.core.arrays import Integers
from epigram.inference.attention import SELF_ATTENTION, AttentionMaps, maps_of
from epigram.inference.explanations.token_scores import ReadText, WordScores
from epigram.inference.explanations.words import Scores
from epigram.inference.predictors.predictor import Predictor
from epigram.models.classifier import NeuralClassifier
from epigram.nn.encoders.pretrained import PretrainedEncoder
from epigram.nn.heads.attention_labeler import AttentionLabelerHead
from epigram.nn.layers.attention.co_attention import CrossAttention

ATTENTIVE = *SELF_ATTENTION, PretrainedEncoder, AttentionLabelerHead, CrossAttention


def has_attention(model: Any) -> bool:
    """Return whether `model` has attention to its tokens."""
    return (
        isinstance(model, NeuralClassifier)
        and model.encoder.config.keeps_tokens
        and any(isinstance(module, ATTENTIVE) for module in model.modules())
    )


def attend(predictor: Predictor, text: str, words: Integers, label: int) -> WordScores:
    """Return the shares of the `words` (W, 2) of `text` in the attention for `label`."""
    model, read = predictor.saved.model, ReadText.of(predictor, text)
    scores = read.by_word(shares_of(maps_of(model, read.tokens()), model.head, label), words, 0.0)
    return WordScores(scores.words, None)


def shares_of(maps: AttentionMaps, head: nn.Module, label: int) -> Scores:
    """Return the share of each token in the attention for `label`, (L,).

    CNLE attends from each label to the text, and MHAL has heads for each label. Otherwise it is the mean attention of
    all tokens and heads, over the layers, which DMSP weighs by its votes.
    """
    if maps.labels_to_text is not None:
        found = maps.labels_to_text[:, label].mean(0)
    elif maps.label_shares is not None and isinstance(head, AttentionLabelerHead):
        found = maps.label_shares[:, head.groups[label].numpy()].mean(1)
    else:
        assert maps.attention is not None
        layers = maps.attention.mean((1, 2))
        weights = maps.layer_weights
        found = layers.mean(0) if weights is None or len(weights) != len(layers) else weights @ layers
    return np.asarray(found, np.float64) / max(float(found.sum()), 1e-12)
