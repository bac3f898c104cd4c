"""Loss of class logits, for one label or several labels per text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, expm1
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, log_softmax, logsigmoid

LOSS_SETTINGS = ("class_weight", "label_smoothing", "focal_gamma")  # settings of `train` that `LossOptions` holds


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """Options of the loss of text labels.

    `weight` (C,) multiplies the loss of the texts of each class or, with several labels per text, the loss of each
    label where the text has it. `smoothing` is ε of label smoothing. `focal_gamma` is γ of the focal loss
    (1 − p)^γ · (−log p) of Lin et al. (2017), where p is the probability of the right answer.
    """

    weight: Tensor | None = None
    smoothing: float = 0.0
    focal_gamma: float = 0.0

    def weight_of(self, labels: Tensor) -> Tensor | float:
        """Return the weights (B,) of the texts with the class indices `labels` (B,); 1 without weights."""
        return 1.0 if self.weight is None else self.weight[labels]


PLAIN = LossOptions()
MIN_WRONG = 1e-6  # minimum of 1 − p in the focal loss: at 0, the derivative of (1 − p)^γ is infinite for γ < 1


def classification_loss(
    logits: Tensor, labels: Tensor, options: LossOptions = PLAIN, *, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor:
    """Return the mean or the sum over the texts of the loss of `logits` (B, C).

    It is the cross-entropy for class indices `labels` (B,), and the binary cross-entropy for indicators (B, C), which
    is a mean over the classes too. A weighted mean is divided by B, not by the sum of the weights, so that a batch in
    two halves has the same gradient.
    """
    logits = logits.float()
    if options is PLAIN:
        plain = cross_entropy if labels.dim() == 1 else binary_cross_entropy_with_logits
        return plain(logits, labels if labels.dim() == 1 else labels.float(), reduction=reduction)
    each = _single_label(logits, labels, options) if labels.dim() == 1 else _multi_label(logits, labels, options)
    return each.mean() if reduction == "mean" else each.sum()


def _single_label(logits: Tensor, labels: Tensor, options: LossOptions) -> Tensor:
    """Return the loss of each text (B,)."""
    each = cross_entropy(logits, labels, label_smoothing=options.smoothing, reduction="none")
    log_p = log_softmax(logits, 1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return _focused(each, log_p, options) * options.weight_of(labels)


def _multi_label(logits: Tensor, labels: Tensor, options: LossOptions) -> Tensor:
    """Return the loss of each label of each text (B, C)."""
    gold = labels.float()
    targets = gold * (1 - options.smoothing) + options.smoothing / 2
    each = binary_cross_entropy_with_logits(logits, targets, pos_weight=options.weight, reduction="none")
    log_p = logsigmoid(logits * (2 * gold - 1))
    return _focused(each, log_p, options)


def _focused(loss: Tensor, log_p: Tensor, options: LossOptions) -> Tensor:
    """Return `loss` times (1 − p)^γ, for the log-probabilities `log_p` of the right answers; all of one shape."""
    if not options.focal_gamma:
        return loss
    wrong = -expm1(log_p)
    return loss * wrong.clamp(min=MIN_WRONG) ** options.focal_gamma
