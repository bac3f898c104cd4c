"""Base class of the heads: logits, loss, and optional hooks that a head may override."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.loss import PLAIN, LossOptions, classification_loss
from epigram.nn.layers.types import Encoded, Prediction, Tokens


class Head(nn.Module):
    """Head from the hidden states (B, L, D) of an encoder to class logits (B, C).

    `config` are the settings that build the head. A subclass overrides `forward`, and those of `prepare`, `drop` and
    `adapt` that it needs.
    """

    config: Any
    summed: ClassVar[bool] = False  # whether the loss is the sum over the texts of a batch; otherwise it is their mean
    decodes: bool = False  # whether the head chooses the labels of a text: exactly those with a logit above 0
    loss_options: LossOptions = PLAIN  # set before training
    part_names: tuple[str, ...] = ()  # names of the K rows of `Prediction.parts` that are also scored alone

    def prepare(self, tokens: Tokens, encoder: Encoder) -> Tokens:
        """Return the input of `encoder` for the batch `tokens` (B, L); by default `tokens` itself.

        A head may add `vectors` (B, L, E), which replace the embeddings of the tokens.
        """
        return tokens

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the logits (B, C) and, if `labels` (B,) or (B, C) are given, the loss, a scalar.

        Raises TypeError in a subclass that does not override it.
        """
        raise TypeError(f"{type(self).__name__} does not override Head.forward")

    def text_loss(self, logits: Tensor, labels: Tensor, *, reduction: Literal["mean", "sum"] = "mean") -> Tensor:
        """Return the loss of the text labels, with the head's `loss_options`; shapes as in `classification_loss`."""
        return classification_loss(logits, labels, self.loss_options, reduction=reduction)

    def drop(self, layer: int) -> None:
        """Remove what belongs to one layer (0-based) that the encoder has dropped; by default nothing."""

    def adapt(self, drop_layer: Callable[[int], None], accuracies: list[float]) -> bool:
        """Adapt to the `accuracies` (K,) of the parts on held-out data; return whether anything changed.

        `drop_layer` removes a layer (0-based) from the encoder. By default nothing changes.
        """
        return False
