"""A model: an encoder and a head."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from pithy.layers.encoder import Encoder
from pithy.layers.types import Encoded, Prediction, Tokens


class Classifier(nn.Module):
    """Any encoder under any head: texts to class logits. `multi`: a text may have several labels."""

    def __init__(self, encoder: Encoder, head: nn.Module, *, multi: bool = False) -> None:
        super().__init__()
        self.encoder, self.head, self.multi = encoder, head, multi
        self.dropped: list[int] = []  # layers that were taken out, each counted among those that were left

    @property
    def depth(self) -> int:
        """Number of layers; 0 where the encoder has none."""
        return self.encoder.depth

    @property
    def summed(self) -> bool:
        """Whether the loss is the sum over a batch's texts, as the head says; it is their mean otherwise."""
        return bool(getattr(self.head, "summed", False))

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        """Logits (B, C) of a batch (B, L), with the loss where `labels` are given."""
        encoded = self.encode(tokens)
        prediction: Prediction = self.head(encoded, labels)
        if prediction.loss is None or encoded.cost is None:
            return prediction
        cost = len(tokens.ids) * encoded.cost if self.summed else encoded.cost  # that of a text, as a mean
        return replace(prediction, loss=prediction.loss + cost)

    def encode(self, tokens: Tokens) -> Encoded:
        """States of every layer, as the head reads them: a head may have its own vectors for some tokens."""
        prepare = getattr(self.head, "prepare", None)
        encoded: Encoded = self.encoder(prepare(tokens, self.encoder) if prepare else tokens)
        return encoded

    def drop(self, layer: int) -> None:
        """Take out one layer (0-based), with the classifier that the head may have on it."""
        self._shorten(layer)
        drop = getattr(self.head, "drop", None)
        if drop:
            drop(layer)

    def adapt(self, accuracies: list[float]) -> bool:
        """Let a depth-controlling head act on its parts' accuracies; returns whether anything changed."""
        adapt = getattr(self.head, "adapt", None)
        return bool(adapt and adapt(self._shorten, accuracies))

    def _shorten(self, layer: int) -> None:
        self.encoder.drop(layer)
        self.dropped.append(layer)


def parameters(model: nn.Module, *, embeddings: bool = True) -> int:
    """Number of weights; without `embeddings`, as the papers count."""
    table = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    return sum(p.numel() for p in model.parameters() if embeddings or id(p) not in table)
