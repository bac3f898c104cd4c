"""What flows between the parts of a model.

Letters used everywhere: B batch, L tokens, D width, H heads, C classes, N layers, V vocabulary, S token labels,
W characters of a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor


@dataclass(frozen=True)
class Tokens:
    """A batch of texts: `ids` (B, L) int64 and `valid` (B, L) bool, True on real tokens.

    `vectors` (B, L, E) stand in for the encoder's own of `ids` where they are given, ahead of positions and norms.
    `characters` (B, L, W) int64 spell the tokens where the view has them, 0 where a token has no more. `labels` (B, L)
    int64 are the tokens' own where the data have them, -1 where a token has none.
    """

    ids: Tensor
    valid: Tensor
    vectors: Tensor | None = None
    characters: Tensor | None = None
    labels: Tensor | None = None


@dataclass(frozen=True)
class Encoded:
    """What an encoder made of `tokens`: the hidden states of every layer.

    `states` holds N + 1 tensors (B, L, D): the embeddings, then the output of each layer. `cost` is what the encoder
    itself adds to the loss, the mean over the batch's texts. One that shortens its texts names the `tokens` that are
    left.
    """

    states: tuple[Tensor, ...]
    tokens: Tokens
    cost: Tensor | None = None

    @property
    def last(self) -> Tensor:
        """Hidden states of the last layer (B, L, D)."""
        return self.states[-1]


@dataclass(frozen=True)
class Prediction:
    """What a head says of a batch.

    `logits` (B, C): their softmax is the probability of each class. `loss` is the mean over the batch where labels were
    given, or the sum where the head is `summed`. `parts` holds the logits of a head's own classifiers, (K, B, C), where
    it has several. `tokens` (B, L, S) are the logits of the tokens' own labels where the head gives them.
    """

    logits: Tensor
    loss: Tensor | None = None
    parts: Tensor | None = None
    tokens: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the data fix about a model: sizes, special tokens, part-of-speech weights, pretrained weights."""

    vocabulary: int
    classes: int
    max_length: int
    labels: tuple[str, ...] = ()  # names of the classes
    multi: bool = False  # a text may have several labels
    token_labels: tuple[str, ...] = ()  # names of the tokens' labels, the default one first
    plain_class: int = 0  # the class whose texts have the fewest tokens with a label other than the default
    characters: int = 0  # ids that spell tokens, 0 (none) and 1 (unknown) included; 0: tokens are not spelled
    unk_id: int = 1  # of a token that the vocabulary lacks
    mask_id: int | None = None
    prefix_ids: tuple[int, ...] = ()  # in front of every text
    pos_weight: Tensor | None = None  # (V,)
    label_counts: Tensor | None = None  # (C,) texts of train with each label, where a text may have several
    vectors: Tensor | None = None  # (V, E) pretrained, rows of NaN for entries without one
    checkpoint: str | None = None
    pretrained: Path | None = None  # folder of the small encoder that was pretrained on the view's texts
