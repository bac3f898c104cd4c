"""Text classifier: an encoder with a head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from epigram.core.config_types import Strict
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.head import Head
from epigram.nn.layers.types import Encoded, Prediction, Tokens


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(Strict):
    """Configuration of a classifier; only its encoder and its head have settings."""

    kind: ClassVar[str] = "classifier"
    by_gradient: ClassVar[bool] = True
    train_settings: ClassVar[tuple[str, ...] | None] = None  # settings with an effect; None: all

    def check_head(self, head: Any) -> None:
        """Accept the settings of any `head`."""


@dataclass(frozen=True, kw_only=True)
class FrozenClassifierConfig(ClassifierConfig):
    """Configuration of a classifier whose encoder keeps its weights; only the linear head is fitted.

    `label_names`: if the labels are words, the weights of the head may include the similarity of a text to the name of
    each label. A saved model is a `classifier`, as the two differ in their training only.
    """

    kind: ClassVar[str] = "frozen_classifier"
    by_gradient: ClassVar[bool] = False
    train_settings: ClassVar[tuple[str, ...]] = ("max_length", "class_weight", "threads")

    label_names: bool = True

    def check_head(self, head: Any) -> None:
        """Raise ValueError for the settings of a `head` that has more to learn than one linear layer."""
        if head.kind not in ("linear", "linear_ngrams") or head.pool == "attention":
            raise ValueError(
                f"model.kind is {self.kind}, which fits one linear layer; set head.kind to linear or "
                "linear_ngrams, and head.pool to mean, max or first"
            )


@dataclass(frozen=True, kw_only=True)
class ContrastiveClassifierConfig(FrozenClassifierConfig):
    """Configuration of a classifier whose encoder is trained on pairs of texts before the linear head is fitted.

    Texts of one label get similar encodings (SetFit: Tunstall et al., Efficient Few-Shot Learning Without Prompts,
    2022). A saved model is a `classifier`.
    """

    kind: ClassVar[str] = "contrastive_classifier"
    by_gradient: ClassVar[bool] = True
    train_settings: ClassVar[tuple[str, ...]] = (
        *("epochs", "min_steps", "batch_size", "max_tokens", "max_length", "learning_rate", "layer_decay"),
        *("optimizer", "beta2"),
        *("epsilon", "weight_decay", "schedule", "warmup", "warmup_steps", "clip", "class_weight", "rollbacks"),
        *("precision", "threads"),
    )


class NeuralClassifier(nn.Module):
    """Text classifier with any encoder and any head. `multi`: a text may have several labels.

    In evaluation mode the logits are divided by `temperature`, which is fitted on dev after training (Guo et al., On
    Calibration of Modern Neural Networks, 2017).
    """

    def __init__(self, encoder: Encoder, head: Head, *, multi: bool = False) -> None:
        super().__init__()
        self.encoder, self.head, self.multi = encoder, head, multi
        self.register_buffer("temperature", torch.tensor(1.0))
        self.temperature: Tensor
        self.dropped: list[int] = []  # dropped layers, each as an index into the layers left at that time

    @property
    def depth(self) -> int:
        """Number of layers; 0 if the encoder has none."""
        return self.encoder.depth

    @property
    def summed(self) -> bool:
        """Whether the loss is the sum over the texts of a batch, as the head declares; otherwise it is their mean."""
        return self.head.summed

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        """Return the logits (B, C) of a batch (B, L), and the loss of the unscaled logits if `labels` are given."""
        encoded = self.encode(tokens)
        prediction: Prediction = self.head(encoded, labels)
        if not self.training:
            prediction = replace(prediction, logits=prediction.logits.float() / self.temperature)
        if prediction.loss is None or encoded.cost is None:
            return prediction
        cost = len(tokens.ids) * encoded.cost if self.summed else encoded.cost  # encoded.cost is a mean over texts
        return replace(prediction, loss=prediction.loss + cost)

    def encode(self, tokens: Tokens) -> Encoded:
        """Return the hidden states of every layer for the head, from the input that the head prepares."""
        prepared = self.head.prepare(tokens, self.encoder)
        encoded: Encoded = self.encoder(prepared)
        return replace(encoded, read=prepared)

    def drop(self, layer: int) -> None:
        """Drop one layer (0-based), and the head's classifier on that layer if it has one."""
        self._drop_from_encoder(layer)
        self.head.drop(layer)

    def adapt(self, accuracies: list[float]) -> bool:
        """Let a depth-controlling head act on the accuracies of its parts; return whether anything changed."""
        return self.head.adapt(self._drop_from_encoder, accuracies)

    def _drop_from_encoder(self, layer: int) -> None:
        self.encoder.drop(layer)
        self.dropped.append(layer)


def decodes(model: nn.Module) -> bool:
    """Return whether the model's head chooses the labels of a text itself, so that no thresholds are tuned."""
    return isinstance(model, NeuralClassifier) and model.head.decodes


def temperature_of(model: nn.Module) -> float:
    """Return the temperature that the model divides its logits by; 1 for a model that has none."""
    return float(model.temperature) if isinstance(model, NeuralClassifier) else 1.0


def count_parameters(model: nn.Module, *, embeddings: bool = True) -> int:
    """Return the number of weights; without `embeddings`, do not count embedding tables, as in the papers."""
    table = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    return sum(p.numel() for p in model.parameters() if embeddings or id(p) not in table)
