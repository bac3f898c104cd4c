"""Members and weights of an ensemble, as stored in `ensemble.json`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from epigram.core.files import write_json
from epigram.core.records import read_record

ENSEMBLE = "ensemble"  # its name among the systems, which no system of params.yaml may have
RECORD = "ensemble.json"


@dataclass(frozen=True, kw_only=True)
class Member:
    """A member; `weights` has one entry per seed.

    `worth` is how far the cross-fitted development score falls if the ensemble is selected without the member, averaged
    over the seeds: a share of 1. `flops` are per text.
    """

    system: str
    weights: list[float]
    worth: float
    flops: float

    @property
    def weight(self) -> float:
        """Mean weight over the seeds."""
        return sum(self.weights) / len(self.weights)


@dataclass(frozen=True, kw_only=True)
class EnsembleRecord:
    """Members of the ensemble, or the reason why there is none; `temperatures` has one entry per seed."""

    reason: str = ""
    members: list[Member] = field(default_factory=list)
    temperatures: list[float] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> EnsembleRecord:
        """Read the record in `folder`. Raises InputMissingError or DataError."""
        return read_record(cls, folder / RECORD)

    def write(self, folder: Path) -> None:
        """Write the record into `folder`, atomically."""
        write_json(folder / RECORD, asdict(self))
