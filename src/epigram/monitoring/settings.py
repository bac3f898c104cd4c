"""Settings of the drift check: section `drift` of params.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from epigram.core.config_types import Positive, Range, Strict


@dataclass(frozen=True, kw_only=True)
class DriftSettings(Strict):
    """Threshold at which new texts count as different from the texts that the champion was trained on."""

    threshold: Annotated[float, Range(gt=0.0)] = 0.2  # population stability index
    window: Positive = 2_000  # number of newest texts
