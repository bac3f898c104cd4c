"""A base classifier on every layer, voting by weight (DMSP, Eq. 4, 7, 9; DDCF)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from pithy.heads.depth_control import DepthControl, Drop, PaperRule
from pithy.layers.encoder import Encoder
from pithy.layers.masking import masked_mean
from pithy.layers.objective import classification_loss
from pithy.layers.types import Context, Encoded, Prediction
from pithy.values import Positive, Share, Strict


@dataclass(frozen=True, kw_only=True)
class LayerEnsembleConfig(Strict):
    """`last` has one classifier, on the last layer; `ensemble` one a layer; `control` also drops layers."""

    mode: Literal["last", "ensemble", "control"] = "control"
    hidden: Positive = 128
    loss: Literal["all", "last"] = "all"  # last: the printed Eq. 9
    threshold: Share | Literal["auto"] = "auto"
    tolerance: Share = 0.01
    rule: PaperRule = "equation"
    drop: Drop = "last"

    def build(self, context: Context, encoder: Encoder) -> LayerEnsembleHead:
        """The head for the data's classes on `encoder`, which must have layers."""
        if encoder.depth == 0:
            raise ValueError(
                "head: layer_ensemble needs an encoder with layers, and this one has none: take head linear, or an "
                "encoder that has layers, such as transformer"
            )
        return LayerEnsembleHead(self, context, encoder)


class BaseClassifier(nn.Module):
    """h_j: D→hidden a token, mean over valid tokens, hidden→C: (B, L, D) → (B, C).  Eq. 4."""

    def __init__(self, *, width: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.token, self.out = nn.Linear(width, hidden), nn.Linear(hidden, classes)

    def forward(self, states: Tensor, valid: Tensor) -> Tensor:
        """Logits (B, C) of one layer's states."""
        out: Tensor = self.out(masked_mean(self.token(states).relu(), valid))
        return out


class LayerEnsembleHead(nn.Module):
    """p = Σ_j β^j p^j over the layers' base classifiers; β is set by the depth controller.  Eq. 7."""

    def __init__(self, config: LayerEnsembleConfig, context: Context, encoder: Encoder) -> None:
        super().__init__()
        self.config, self.multi = config, context.multi
        self.control = DepthControl(
            threshold=config.threshold, tolerance=config.tolerance, rule=config.rule, drop=config.drop
        )
        count = 1 if config.mode == "last" else encoder.depth
        self.classifiers = nn.ModuleList(
            BaseClassifier(width=encoder.width, hidden=config.hidden, classes=context.classes) for _ in range(count)
        )
        self.register_buffer("beta", torch.full((count,), 1 / count))
        self.beta: Tensor

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """The weighted vote as logits (B, C), and Σ_j CE(p^j, y)."""
        states = encoded.states[-len(self.classifiers) :]
        valid = encoded.tokens.valid
        parts = torch.stack([h(x, valid).float() for h, x in zip(self.classifiers, states, strict=True)])  # (N, B, C)
        loss = None
        if labels is not None:
            heard = parts if self.config.loss == "all" else parts[-1:]
            loss = sum((classification_loss(part, labels) for part in heard), start=parts.new_zeros(()))  # Eq. 9
        return Prediction(self.vote(parts), loss, parts)

    def vote(self, parts: Tensor) -> Tensor:
        """p = Σ_j β^j p^j from the classifiers' logits (N, B, C), as logits (B, C).  Eq. 7."""
        share = self.beta.log()[:, None, None]
        if not self.multi:
            return (parts.log_softmax(-1) + share).logsumexp(0)
        return (logsigmoid(parts) + share).logsumexp(0) - (logsigmoid(-parts) + share).logsumexp(0)

    def adapt(self, shorten: Callable[[int], None], accuracies: list[float]) -> bool:
        """Set β from the layers' accuracies α on held-out data and drop the last layer where the rule says so.

        `shorten` takes a layer out of the encoder. One step of DDC, once an epoch (Algorithm 1). Returns whether the
        vote changed.
        """
        if self.config.mode != "control":
            return False
        kept, layer = list(accuracies), self.control.dropped(accuracies)
        if layer is not None:
            del kept[layer]
            shorten(layer)
            self.drop(layer)
        self.beta = torch.as_tensor(self.control.weights(kept), dtype=torch.float32, device=self.beta.device)
        return True

    def drop(self, layer: int) -> None:
        """Take out the classifier of a layer; those left vote alike until the controller weighs them again."""
        if self.config.mode == "last":
            return
        del self.classifiers[layer]
        self.beta = torch.full_like(self.beta[1:], 1 / len(self.classifiers))
