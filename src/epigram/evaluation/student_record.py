"""Teacher of a student, and the texts that it learned from, as stored in `student.json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from epigram.core.errors import ParameterError
from epigram.core.files import write_json
from epigram.core.records import read_record
from epigram.evaluation.choose_system import rank
from epigram.evaluation.ensemble_record import ENSEMBLE, EnsembleRecord
from epigram.evaluation.results import Metrics

RECORD = "student.json"


@dataclass(frozen=True, kw_only=True)
class StudentRecord:
    """The `teacher`, a system or the ensemble, and how many texts the student learned from.

    `labelled` texts are those of train, which has so many `folds`. The student learned their labels with the weight
    `label_weight`, and the teacher's out-of-fold probabilities with the rest. `unlabelled` texts have the teacher's
    probabilities. `held_out` lines of the file of texts have the text of a row of dev or test and were left out, as
    were `known` ones of train.
    """

    teacher: str
    labelled: int
    folds: int
    label_weight: float
    unlabelled: int
    held_out: int
    known: int

    @classmethod
    def read(cls, folder: Path) -> StudentRecord:
        """Read the record in `folder`. Raises InputMissingError or DataError."""
        return read_record(cls, folder / RECORD)

    def write(self, folder: Path) -> None:
        """Write the record into `folder`, atomically."""
        write_json(folder / RECORD, asdict(self))


def teacher_of(ensemble: EnsembleRecord, systems: Sequence[Metrics]) -> str:
    """Return the name of the ensemble or, if there is none, of the system with the highest development score.

    Of systems with the same score it is the one with fewer parameters. Systems that do not learn, such as the random
    baseline, cannot teach. Raises ParameterError if there are no others.
    """
    if ensemble.members:
        return ENSEMBLE
    learned = [each for each in systems if each.seeds[0].cost.parameters]
    if not learned:
        raise ParameterError("params.yaml: students learn from the best of the systems, but none of them learns")
    return min(learned, key=lambda each: rank(each, each.dev_score.value)).system
