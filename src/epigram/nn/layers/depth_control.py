"""Dynamic depth control (DDCF, Eq. 5, 6): weights of the layers' classifiers, and the rule that drops layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epigram.core.rounding import PRECISION, clearly_above

PaperRule = Literal["equation", "algorithm"]
Rule = Literal[PaperRule, "shallowest"]
Drop = Literal["last", "worst"]


@dataclass(frozen=True, kw_only=True)
class DepthControl:
    """Depth controller with a threshold ξ on the layers' accuracies and a rule for dropping layers.

    A layer is good if its accuracy is above ξ. `threshold` is ξ itself, or `auto`: the best layer's accuracy minus
    `tolerance`. With tolerance 0, only layers as accurate as the best one are good.
    The paper's rules, `equation` and `algorithm`, drop nothing if all layers are good. The rule `shallowest` is this
    project's own: it keeps the layers up to the first good one.
    """

    threshold: float | Literal["auto"] = "auto"
    tolerance: float = 0.01
    rule: Rule = "equation"
    drop: Drop = "last"

    def xi(self, accuracies: Sequence[float]) -> float:
        """Return ξ for the layers' accuracies α; with `auto`, the best accuracy is always clearly above ξ."""
        if self.threshold != "auto":
            return self.threshold
        best = max(accuracies)
        return best - max(self.tolerance, 2 * PRECISION)

    def counts(self, accuracies: Sequence[float]) -> tuple[int, int]:
        """Return the number g of layers with α > ξ and the number s of layers with α ≤ ξ."""
        good = sum(self.good(accuracies))
        return good, len(accuracies) - good

    def good(self, accuracies: Sequence[float]) -> list[bool]:
        """Return for each layer whether α > ξ."""
        xi = self.xi(accuracies)
        return [clearly_above(alpha, xi) for alpha in accuracies]

    def weights(self, accuracies: Sequence[float]) -> NDArray[np.float64]:
        """Return the weights β of the N layers.  Eq. 5, 6; the denominator sums exp(μα), so that β sums to 1."""
        alpha = np.asarray(accuracies, dtype=np.float64)
        good, weak = self.counts(accuracies)
        low = -np.inf if good >= weak + 1 else -1.0
        mu = np.where(self.good(accuracies), 1.0, low)  # Eq. 5
        score = np.exp(np.where(np.isinf(mu), -np.inf, np.where(np.isinf(mu), 0.0, mu) * alpha))
        return np.asarray(score / score.sum())  # Eq. 6

    def remaining_layers(self, accuracies: Sequence[float]) -> list[int]:
        """Return the layers (0-based) that remain after all drops."""
        remaining = list(range(len(accuracies)))
        if self.rule == "shallowest":
            good = self.good(accuracies)
            first = good.index(True) if any(good) else remaining[-1]
            return remaining[: first + 1]
        while (layer := self.next_dropped([accuracies[n] for n in remaining])) is not None:
            del remaining[layer]
        return remaining

    def next_dropped(self, accuracies: Sequence[float]) -> int | None:
        """Return the layer (0-based) that the paper's rules drop next, or None.

        A layer is dropped if at least one layer is weak (α ≤ ξ) and the good layers outnumber the weak ones by the
        rule's margin. Without the first condition, a model with only good layers would be cut to depth 1.
        """
        good, weak = self.counts(accuracies)
        margin = weak + 1 if self.rule == "equation" else weak + 2
        if len(accuracies) == 1 or weak == 0 or good < margin:
            return None
        return len(accuracies) - 1 if self.drop == "last" else int(np.argmin(accuracies))
