"""Settings of retraining and of the drift check: sections `retrain` and `drift` of params.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from epigram.core.config_types import Name, OpenShare, Positive, Range, Share, Strict


@dataclass(frozen=True, kw_only=True)
class Query(Strict):
    """A database query: the URL, as in data/sources/sql.yaml, and the SELECT that returns the rows."""

    url: str  # as in data/sources/sql.yaml
    query: str  # a SELECT


@dataclass(frozen=True, kw_only=True)
class RetrainSettings(Strict):
    """Sources of new rows, the systems to retrain, and the conditions for promoting a challenger."""

    incoming: str = "data/local/incoming"  # folder with files of new rows
    database: Query | None = None  # queried in addition to the folder
    systems: list[Name] = field(default_factory=list)  # empty: the systems of params.yaml
    alpha: OpenShare = 0.05  # significance level for a better score
    margin: Share = 0.05  # maximum loss of a class's F1


@dataclass(frozen=True, kw_only=True)
class DriftSettings(Strict):
    """Threshold at which new texts count as different from the texts that the champion was trained on."""

    threshold: Annotated[float, Range(gt=0.0)] = 0.2  # population stability index
    window: Positive = 2_000  # number of newest texts
