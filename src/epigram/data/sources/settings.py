"""Settings of downloads: section `download` of params.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from epigram.core.config_types import Count, Positive, Range, Strict


@dataclass(frozen=True, kw_only=True)
class DownloadSettings(Strict):
    """Retries and limits for downloads."""

    tries: Positive = 4  # attempts of a download
    timeout: Annotated[float, Range(gt=0.0)] = 30.0  # seconds without a byte received
    min_rate: Count = 1_000  # bytes per second, measured over each `timeout` seconds of a transfer
