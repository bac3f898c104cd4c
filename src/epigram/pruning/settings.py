"""Settings of pruning: section `prune` of params.yaml."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from epigram.core.config_types import Positive, Share, Strict
from epigram.core.errors import ParameterError
from epigram.models.settings import System


@dataclass(frozen=True, kw_only=True)
class PruneSettings(Strict):
    """Dynamic depth control of a trained model (DDCF, Eq. 5)."""

    enabled: bool = True  # whether layers are dropped
    threshold: Share | Literal["auto"] = "auto"  # ξ
    tolerance: Share = 0.01  # auto: ξ = best layer's accuracy − tolerance; also the maximum loss of a pruned model
    rule: Literal["equation", "algorithm", "shallowest"] = "equation"  # Eq. 5, Algorithm 1, epigram's own rule
    drop: Literal["last", "worst"] = "last"  # layers that the paper's rules drop; `shallowest` keeps the first layers
    epochs: Positive = 2  # epochs of fine-tuning after dropping layers

    def check(self) -> None:
        """Raise ParameterError for a setting without effect."""
        if self.rule == "shallowest" and self.drop != "last":
            raise ParameterError(
                f"params.yaml: prune.drop is {self.drop!r}, which has no effect, because prune.rule is 'shallowest'; "
                "set drop to last, or rule to equation"
            )

    def of(self, system: System) -> PruneSettings:
        """Return the settings for a system: its own `prune` decides, and a paper's settings have no pruning."""
        wanted = self.enabled and system.preset is None if system.prune is None else system.prune
        return replace(self, enabled=wanted)

    def obstacle(self, depth: int, by_gradient: bool) -> str | None:
        """Return why a model of `depth` layers is not pruned, or None if only the model itself can tell."""
        if not self.enabled:
            return "pruning is off (prune.enabled, or the system's prune or preset)"
        if depth < 2:
            return "no layers to drop"
        return None if by_gradient else "the head is fitted to the encoder as it is"
