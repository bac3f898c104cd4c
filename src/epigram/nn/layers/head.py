"""Base class of the heads: logits, loss, and optional hooks that a head may override."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from epigram.core.config_types import Strict
from epigram.nn.layers.encoder import Encoder, EncoderSettings
from epigram.nn.layers.loss import PLAIN, LossOptions, classification_loss
from epigram.nn.layers.types import DataSpec, Encoded, Prediction, Tokens


class HeadSettings(Strict):
    """Base class of the settings of heads, with what a head requires of the data and of the encoder."""

    kind: ClassVar[str]
    module: ClassVar[Any]  # the class of the heads with these settings
    one_label: ClassVar[bool] = False  # whether a text cannot have several labels
    needs_tokens: ClassVar[bool] = False  # whether the encoder must have one state per token
    searches: ClassVar[bool] = False  # whether a search without gradients chooses several labels of a text
    labels_tokens: ClassVar[bool] = False  # whether the head predicts token labels

    @property
    def learns_tokens(self) -> bool:
        """Whether the loss uses token labels."""
        return self.labels_tokens

    def build(self, context: DataSpec, encoder: Encoder) -> Any:
        """Build the head for the data that `context` describes on `encoder`."""
        return self.module(self, context, encoder)

    def check(self, context: DataSpec, encoder: EncoderSettings) -> None:
        """Raise ValueError if settings conflict, or if the head does not fit the data or the encoder."""
        if self.one_label and context.multi:
            raise ValueError(
                f"head: {self.kind} predicts one label per text, and the texts have several; use another head, for "
                "example linear"
            )
        if self.needs_tokens and not encoder.keeps_tokens:
            raise ValueError(
                f"head: {self.kind} needs an encoder with one state per token, and this one has fewer; "
                "use another encoder, or head linear"
            )


class Head(nn.Module):
    """Head from the hidden states (B, L, D) of an encoder to class logits (B, C).

    `config` are the settings that build the head. A subclass overrides `forward` and, where needed, `prepare`, `drop`
    and `adapt`.
    """

    config: Any
    summed: ClassVar[bool] = False  # whether the loss is the sum over the texts of a batch; otherwise it is their mean
    decodes: bool = False  # whether the head chooses the labels of a text: exactly those with a logit above 0
    loss_options: LossOptions = PLAIN  # set before training
    part_names: tuple[str, ...] = ()  # names of the K rows of `Prediction.parts` that are also scored alone

    def __init_subclass__(cls, settings: type[HeadSettings] | None = None) -> None:
        if settings is not None:
            settings.module = cls

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
