"""Specification and result of a trial, as JSON files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from epigram.core.records import read_record


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """A system, by its name and settings in params.yaml, and the rows that it is tried on.

    `rows` training texts at most, and `held_out` texts of dev at most. If train has folds, the first `folds` of them
    are held out, one after another. `train` is the section `train` of params.yaml, which all systems share.
    """

    name: str
    system: dict[str, Any]
    rows: int
    train: dict[str, Any] = field(default_factory=dict)
    held_out: int = 2_000
    folds: int = 2
    seed: int = 0

    @property
    def view(self) -> str:
        """Name of the system's view."""
        return str(self.system["view"])

    @property
    def content(self) -> dict[str, Any]:
        """Content of the file."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class TrialRequest:
    """A trial, the folders of its view and of the encoder that was pretrained on it, and the file of its result."""

    spec: TrialSpec
    encoded: Path
    pretrained: Path
    out: Path

    @property
    def content(self) -> dict[str, Any]:
        """Content of the file."""
        folders = {"encoded": self.encoded, "pretrained": self.pretrained, "out": self.out}
        return {"spec": self.spec.content, **{name: str(path) for name, path in folders.items()}}


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """Score on the held-out texts, the loss of the calibrated probabilities, and the cost.

    `seconds` is the time to train once on `rows` texts, with evaluations on `held_out` texts, and `ms_per_text` the
    time to predict one text in a batch. `steps` and `evaluations` count until the end of a training by gradient, which
    may stop early; they are 0 for other models, and in results of older versions.
    """

    score: float
    loss: float
    rows: int
    held_out: int
    seconds: float
    ms_per_text: float
    steps: float = 0.0
    evaluations: float = 0.0

    @classmethod
    def read(cls, path: Path) -> TrialResult:
        """Read the file at `path`. Raises InputMissingError or DataError."""
        return read_record(cls, path)
