"""Teacher of a student, and the texts that it learned from, as stored in `student.json`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from epigram.core.files import write_json
from epigram.core.records import read_record

RECORD = "student.json"
Unranked: TypeAlias = Literal["", "folds", "data"]


@dataclass(frozen=True, kw_only=True)
class StudentRecord:
    """The `teacher`, a saved model, and how many texts the student learned from.

    `labelled` texts are the texts of train. The student learned their labels with the weight `label_weight`, and the
    teacher's probabilities with the rest. `unlabelled` texts have the teacher's probabilities. Lines of the file of
    texts were left out: `held_out` with the text of a row of dev or test, `known` with the text of a row of train.
    `unranked` says why the teacher may have seen the development texts: `folds` replace dev, or the teacher was trained
    on other `data`; then only labels were learned of train.
    """

    teacher: str
    labelled: int
    label_weight: float
    unlabelled: int
    held_out: int
    known: int
    unranked: Unranked = ""

    def write(self, folder: Path) -> None:
        """Write the record into `folder`, atomically."""
        write_json(folder / RECORD, asdict(self))


def read_students(models: Path, names: Iterable[str]) -> dict[str, StudentRecord]:
    """Return the record of each of the systems `names` that has a teacher; `models` has the folder of each system.

    Raises DataError for an invalid record.
    """
    files = {name: models / name / RECORD for name in names}
    return {name: read_record(StudentRecord, file) for name, file in files.items() if file.exists()}
