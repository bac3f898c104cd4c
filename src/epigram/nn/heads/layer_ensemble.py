"""Head with a base classifier on every layer and a weighted vote (DMSP, Eq. 4, 7, 9; DDCF)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from epigram.core.config_types import Positive, Share
from epigram.core.effects import Only, Unless
from epigram.nn import heads
from epigram.nn.layers.autocast import OutputLinear
from epigram.nn.layers.depth_control import DepthControl, Drop, PaperRule
from epigram.nn.layers.encoder import Encoder, EncoderSettings
from epigram.nn.layers.head import Head
from epigram.nn.layers.hook_fusion import FusionConfig, fuse
from epigram.nn.layers.pooling import masked_mean
from epigram.nn.layers.types import DataSpec, Encoded, Prediction


@heads.register("layer_ensemble")
@dataclass(frozen=True, kw_only=True)
class LayerEnsembleConfig(FusionConfig):
    """Settings of the head.

    `mode`: `last` has one classifier, on the last layer; `deep` also trains one on the embeddings and on every other
    layer, but predicts by the last one; `ensemble` has one per layer, which vote; `control` also drops layers, by
    `threshold`, `tolerance`, `rule` and `drop` (see `DepthControl`). `loss`: sum over all classifiers, or the last one
    only. `hidden` is the width of a base classifier. With `fusion: hook`, a classifier reads the hook fusion of
    the layers up to its own, instead of its own layer.
    """

    mode: Literal["last", "deep", "ensemble", "control"] = "control"
    hidden: Positive = 128
    loss: Annotated[Literal["all", "last"], Unless("mode", "last")] = "all"  # last: the printed Eq. 9
    threshold: Annotated[Share | Literal["auto"], Only("mode", "control")] = "auto"
    tolerance: Annotated[Share, Only("mode", "control"), Only("threshold", "auto")] = 0.01
    rule: Annotated[PaperRule, Only("mode", "control")] = "equation"
    drop: Annotated[Drop, Only("mode", "control")] = "last"

    def check(self, context: DataSpec, encoder: EncoderSettings) -> None:
        """Raise ValueError also if the encoder has no layers."""
        if not encoder.has_layers:
            raise ValueError(
                "head: layer_ensemble needs an encoder with layers, and this one has none; use head linear, or an "
                "encoder with layers, for example transformer"
            )
        super().check(context, encoder)


class BaseClassifier(nn.Module):
    """Base classifier h_j: D→hidden per token, mean over valid tokens, hidden→C: (B, L, D) → (B, C).  Eq. 4."""

    def __init__(self, *, width: int, hidden: int, classes: int, shares: Tensor | None = None) -> None:
        super().__init__()
        self.token, self.out = nn.Linear(width, hidden), OutputLinear(hidden, classes, shares)

    def forward(self, states: Tensor, valid: Tensor) -> Tensor:
        """Return the logits (B, C) of one layer's `states` (B, L, D)."""
        out: Tensor = self.out(masked_mean(self.token(states).relu(), valid))
        return out


class LayerEnsembleHead(Head, settings=LayerEnsembleConfig):
    """Weighted vote p = Σ_j β^j p^j of the layers' base classifiers; the depth controller sets β.  Eq. 7."""

    def __init__(self, config: LayerEnsembleConfig, context: DataSpec, encoder: Encoder) -> None:
        super().__init__()
        self.config, self.multi = config, context.multi
        self.control = DepthControl(
            threshold=config.threshold, tolerance=config.tolerance, rule=config.rule, drop=config.drop
        )
        count = {"last": 1, "deep": encoder.depth + 1}.get(config.mode, encoder.depth)
        self.classifiers = nn.ModuleList(
            BaseClassifier(
                width=encoder.width, hidden=config.hidden, classes=context.classes, shares=context.label_shares
            )
            for _ in range(count)
        )
        self.register_buffer("beta", self._initial_beta())
        self.beta: Tensor

    def _initial_beta(self) -> Tensor:
        """Return equal weights β of all classifiers, or a weight of the last one only if it predicts alone."""
        count = len(self.classifiers)
        if self.config.mode == "deep":
            return torch.arange(count).eq(count - 1).float()
        return torch.full((count,), 1 / count)

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the weighted vote as logits (B, C) and, if `labels` (B,) or (B, C) are given, Σ_j CE(p^j, y)."""
        states, valid = self.inputs(encoded), encoded.tokens.valid
        parts = torch.stack([h(x, valid).float() for h, x in zip(self.classifiers, states, strict=True)])  # (N, B, C)
        loss = None
        if labels is not None:
            trained = parts if self.config.loss == "all" else parts[-1:]
            loss = sum((self.text_loss(part, labels) for part in trained), start=parts.new_zeros(()))  # Eq. 9
        return Prediction(self.vote(parts), loss, parts)

    def inputs(self, encoded: Encoded) -> Sequence[Tensor]:
        """Return what each classifier reads, (B, L, D) each: its layer, or the hook fusion of the layers up to it."""
        states, config, count = encoded.states, self.config, len(self.classifiers)
        if config.fusion == "last":
            return states[-len(self.classifiers) :]
        ends = range(len(states) - count + 1, len(states) + 1)
        return [fuse(states[:end], config.hook_a, config.hook_b) if end > 1 else states[0] for end in ends]

    def vote(self, parts: Tensor) -> Tensor:
        """Return p = Σ_j β^j p^j as logits (B, C), from the classifiers' logits (N, B, C).  Eq. 7."""
        log_beta = self.beta.log()[:, None, None]
        if not self.multi:
            return (parts.log_softmax(-1) + log_beta).logsumexp(0)
        return (logsigmoid(parts) + log_beta).logsumexp(0) - (logsigmoid(-parts) + log_beta).logsumexp(0)

    def adapt(self, drop_layer: Callable[[int], None], accuracies: list[float]) -> bool:
        """Set β from the layers' accuracies α on held-out data and drop one layer if the rule says so.

        This is one step of DDC, run once per epoch (Algorithm 1). `drop_layer` removes a layer (0-based) from
        the encoder. Returns whether β was updated.
        """
        if self.config.mode != "control":
            return False
        remaining, layer = list(accuracies), self.control.next_dropped(accuracies)
        if layer is not None:
            del remaining[layer]
            drop_layer(layer)
            self.drop(layer)
        self.beta = torch.as_tensor(self.control.weights(remaining), dtype=torch.float32, device=self.beta.device)
        return True

    def drop(self, layer: int) -> None:
        """Remove the classifier of a layer; β has its initial values until `adapt` sets it again."""
        if self.config.mode == "last":
            return
        first = 1 if self.config.mode == "deep" else 0  # the first classifier reads the embeddings
        del self.classifiers[layer + first if layer >= 0 else layer]
        self.beta = self._initial_beta().to(self.beta)
