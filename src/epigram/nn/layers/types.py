"""Data types that encoders and heads exchange.

Dimensions in all docstrings: B batch, L tokens, D width, H heads, d = D/H, C classes, N layers, V vocabulary, E width
of a token vector, S token labels, W characters of a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Tokens:
    """Batch of texts: `ids` (B, L) int64 and `valid` (B, L) bool, True for real tokens.

    `vectors` (B, L, E), if given, replace the encoder's embeddings of `ids`, before positions and normalization.
    `characters` (B, L, W) int64 are the character ids of the tokens if the view has them, padded with 0. `labels`
    (B, L) int64 are the token labels if the data have them, -1 for a token without a label. `word_weight` (B, L), if
    given, is the part-of-speech weight of the word that contains each token, negative where the token's own applies.
    `lengths` (B,) are the numbers of real tokens, if the host knows them; reading `valid` waits for the device.
    """

    ids: Tensor
    valid: Tensor
    vectors: Tensor | None = None
    characters: Tensor | None = None
    labels: Tensor | None = None
    word_weight: Tensor | None = None
    lengths: NDArray[np.int64] | None = None

    @property
    def shortest(self) -> int | None:
        """The number of tokens of the shortest text; None if the host does not know the lengths."""
        return None if self.lengths is None else int(self.lengths.min())

    @property
    def count(self) -> int | None:
        """The number of tokens of all texts together; None if the host does not know the lengths."""
        return None if self.lengths is None else int(self.lengths.sum())

    @property
    def full(self) -> bool | None:
        """Whether no text has padding; None if the host does not know the lengths."""
        return None if self.lengths is None else self.shortest == self.ids.shape[1]


@dataclass(frozen=True)
class Encoded:
    """Output of an encoder: the hidden states of every layer.

    `states` holds N + 1 tensors (B, L, D): the embeddings, then the output of each layer. `tokens` are the tokens of
    the last states: all of the batch, or the remaining tokens if the encoder shortens texts. `cost` is the encoder's
    own term of the loss, a mean over the texts of the batch. `read` are the tokens that the encoder read, if the
    model sets them.
    """

    states: tuple[Tensor, ...]
    tokens: Tokens
    cost: Tensor | None = None
    read: Tokens | None = None

    @property
    def last(self) -> Tensor:
        """The hidden states of the last layer (B, L, D)."""
        return self.states[-1]


@dataclass(frozen=True)
class Prediction:
    """Output of a head for a batch.

    `logits` (B, C) are the class logits; their softmax, or with several labels per text their sigmoid, gives the
    probabilities. `loss`, if labels are given, is the mean over the batch, or the sum if the head is `summed`. `parts`
    (K, B, C) are the logits of each of a head's K classifiers, if it has several. `tokens` (B, L, S) are the logits of
    the token labels, if the head predicts them.
    """

    logits: Tensor
    loss: Tensor | None = None
    parts: Tensor | None = None
    tokens: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """Properties of a model that the data determine: sizes, special tokens, part-of-speech and pretrained weights."""

    vocabulary: int
    classes: int
    max_length: int
    labels: tuple[str, ...] = ()  # names of the classes
    multi: bool = False  # a text may have several labels
    token_labels: tuple[str, ...] = ()  # names of the token labels, the default label first
    plain_class: int = 0  # the class whose texts have the fewest tokens with a non-default label
    characters: int = 0  # number of character ids, with 0 (padding) and 1 (unknown); 0: no characters
    unk_id: int = 1  # id of tokens outside the vocabulary
    mask_id: int | None = None
    prefix_ids: tuple[int, ...] = ()  # ids before every text: the prompt
    suffix_ids: tuple[int, ...] = ()  # ids after every text
    pairs: bool = False  # a text has two sides; an encoder with segments reads the last of `suffix_ids` between them
    pos_weight: Tensor | None = None  # (V,)
    label_shares: Tensor | None = None  # (C,) share of the training texts with each label, if `multi`
    vectors: Tensor | None = None  # (V, E) pretrained token vectors; a row of NaN if there is none
    checkpoint: str | None = None
    pretrained: Path | None = None  # folder of a small encoder, or of the checkpoint, pretrained on the view's texts

    @property
    def start(self) -> str | None:
        """The folder of the checkpoint as it was pretrained on the view's texts, or the checkpoint itself."""
        return self.checkpoint and str(self.pretrained or self.checkpoint)

    @property
    def prompt_masks(self) -> int:
        """The number of masks in the prompt."""
        return 0 if self.mask_id is None else (*self.prefix_ids, *self.suffix_ids).count(self.mask_id)
