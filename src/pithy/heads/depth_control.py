"""The dynamic depth controller's rule (DDCF, Eq. 5, 6): which layers count, and whether the last one goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pithy.rounding import PRECISION, clearly_above

PaperRule = Literal["equation", "algorithm"]
Rule = Literal[PaperRule, "shallowest"]
Drop = Literal["last", "worst"]


@dataclass(frozen=True, kw_only=True)
class DepthControl:
    """Threshold ξ (absolute, or `auto`: the best layer's accuracy less `tolerance`) and the rule for a drop.

    Without tolerance the layers that are as good as the best are good.
    The paper's rules see no idle layer where all are good. `shallowest`, ours, keeps those up to the first good one.
    """

    threshold: float | Literal["auto"] = "auto"
    tolerance: float = 0.01
    rule: Rule = "equation"
    drop: Drop = "last"

    def xi(self, accuracies: Sequence[float]) -> float:
        """ξ for the layers' accuracies α; with `auto`, the best one is always clearly above it."""
        if self.threshold != "auto":
            return self.threshold
        best = max(accuracies)
        return best - max(self.tolerance, 2 * PRECISION)

    def counts(self, accuracies: Sequence[float]) -> tuple[int, int]:
        """g layers with α > ξ and s layers with α ≤ ξ."""
        good = sum(self.good(accuracies))
        return good, len(accuracies) - good

    def good(self, accuracies: Sequence[float]) -> list[bool]:
        """Whether α > ξ, for each layer."""
        xi = self.xi(accuracies)
        return [clearly_above(alpha, xi) for alpha in accuracies]

    def weights(self, accuracies: Sequence[float]) -> NDArray[np.float64]:
        """β of the N layers, summing to 1.  Eq. 5, 6 with the denominator over μα, so that it does sum to 1."""
        alpha = np.asarray(accuracies, dtype=np.float64)
        good, weak = self.counts(accuracies)
        low = -np.inf if good >= weak + 1 else -1.0
        mu = np.where(self.good(accuracies), 1.0, low)  # Eq. 5
        score = np.exp(np.where(np.isinf(mu), -np.inf, np.where(np.isinf(mu), 0.0, mu) * alpha))
        return np.asarray(score / score.sum())  # Eq. 6

    def kept(self, accuracies: Sequence[float]) -> list[int]:
        """The layers (0-based) that are left when none goes any more."""
        left = list(range(len(accuracies)))
        if self.rule == "shallowest":
            good = self.good(accuracies)
            first = good.index(True) if any(good) else left[-1]
            return left[: first + 1]
        while (layer := self.dropped([accuracies[n] for n in left])) is not None:
            del left[layer]
        return left

    def dropped(self, accuracies: Sequence[float]) -> int | None:
        """The layer (0-based) that goes next by the paper's rules, or None.

        One goes where some layer is weak and the good ones outnumber the weak ones by the rule's margin; without
        the first condition an all-good model would be cut to depth 1.
        """
        good, weak = self.counts(accuracies)
        margin = weak + 1 if self.rule == "equation" else weak + 2
        if len(accuracies) == 1 or weak == 0 or good < margin:
            return None
        return len(accuracies) - 1 if self.drop == "last" else int(np.argmin(accuracies))
