"""Teacher of a system: a saved model, and the probabilities that the system learns from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from epigram.core.config_types import is_name, shown
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.files import is_inside, read_arrays, sha256, write_arrays
from epigram.evaluation.records.student_record import StudentRecord, Unranked
from epigram.models import manifest
from epigram.models.manifest import code_hash
from epigram.models.predict import Array
from epigram.models.settings import System
from epigram.text.dataset.encoded_dataset import View

if TYPE_CHECKING:
    from epigram.inference.predictors.base_predictor import BasePredictor

KEPT = Path(".epigram/taught")  # predictions of teachers
LOCAL, RUNS, MOVING = "data/local", "runs", {"latest", "champion"}  # links in RUNS that change


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """The saved model in the folder `path`, as it teaches a system that reads `view`, with the system's `label_weight`.

    `digest` is the SHA-256 of its manifest. `has_own_data`: it was trained on train of this data set, with the same dev
    and test, and on nothing else. All probabilities are calibrated: they have the temperature of the model.
    """

    path: str
    view: View
    predictor: BasePredictor
    label_weight: float
    digest: str
    has_own_data: bool

    @classmethod
    def load(cls, name: str, system: System, view: View) -> Teacher:
        """Load the teacher of the system `name`. Raises ParameterError if it does not have the labels of the data."""
        from epigram.inference.predictors.open_predictor import open_predictor

        path, where = str(system.teacher), f"systems.{name}.teacher"
        folder = teacher_folder(path, where)
        with manifest.require_unchanged(folder):
            predictor, digest = open_predictor(folder), sha256(folder / manifest.MANIFEST)
            has_own_data = manifest.read_provenance(folder).get("rows") == view.rows_digest
        if set(predictor.labels) != set(view.labels) or predictor.multi != (view.task == "multi"):
            kind = "any number of labels" if predictor.multi else "one label"
            raise ParameterError(
                f"params.yaml: {where} is {path!r}, which gives a text {kind} of {shown(', '.join(predictor.labels))}; "
                f"expected a model of the data set's labels, {shown(', '.join(view.labels))}"
            )
        return cls(
            path=path,
            view=view,
            predictor=predictor,
            label_weight=system.label_weight,
            digest=digest,
            has_own_data=has_own_data,
        )

    @property
    def unranked(self) -> Unranked:
        """Why the student is not ranked."""
        if not self.has_own_data:
            return "data"
        return "folds" if self.view.folds else ""

    @property
    def facts(self) -> tuple[str, float]:
        """All that a training depends on besides the view."""
        return self.digest, self.label_weight

    @property
    def record(self) -> StudentRecord:
        """What `student.json` says."""
        about = self.view.unlabelled
        assert about is not None
        return StudentRecord(
            teacher=self.path,
            labelled=len(self.view.split("train")),
            label_weight=1.0 if self.unranked else self.label_weight,
            unlabelled=about["texts"],
            held_out=about["held_out"],
            known=about["known"],
            unranked=self.unranked,
        )

    def targets(self) -> Array:
        """Return the probabilities (N + M, C) that a student learns.

        For the N training texts, they are the mean of the label, with `label_weight`, and of the teacher's
        probabilities. If the student is not ranked, they are 0 and 1, as the labels say. For the M texts without labels
        of the view, they are the teacher's.
        """
        labels = np.asarray(self.view.split("train").labels)
        known = labels if self.view.task == "multi" else labels[:, None] == np.arange(len(self.view.labels))
        known = known.astype(np.float32)
        if self.unranked:
            return np.concatenate([known, self.probabilities(train=False)])
        taught, weight = self.probabilities(train=True), np.float32(self.label_weight)
        taught[: len(known)] = weight * known + (1 - weight) * taught[: len(known)]
        return taught

    def thresholds(self) -> list[float] | None:
        """Return the teacher's thresholds (C,) if folds replace dev and a text may have several labels.

        A student's probabilities for new texts are similar. Its cross-validation learns labels alone.
        """
        if not self.view.folds or self.view.task != "multi":
            return None
        return [self.predictor.thresholds[column] for column in self._columns()]

    def probabilities(self, *, train: bool) -> Array:
        """Return the probabilities (M, C) of the texts without labels; `train` puts rows of train first (N + M, C).

        They are kept in KEPT by the teacher, the texts and the code, for the other students of the view and for an
        interrupted run. A damaged file is written again.
        """
        from epigram.text.dataset.raw_texts import load_texts

        digests = self.digest, self.view.fingerprint, code_hash(), str(train)
        kept = KEPT / f"{'-'.join(digest[:16] for digest in digests)}.safetensors"
        try:
            taught: Array = read_arrays(kept)["probabilities"].copy()
        except (DataError, InputMissingError, KeyError):
            found = self.predictor.probabilities(load_texts(self.view.folder, train=train))
            taught = np.ascontiguousarray(found[:, self._columns()], np.float32)
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_arrays(kept, {"probabilities": taught})
        return taught

    def _columns(self) -> list[int]:
        """Return the column of each label of the data among the model's."""
        return [self.predictor.labels.index(label) for label in self.view.labels]


def teacher_folder(path: str, where: str, root: Path = Path()) -> Path:
    """Return the folder of the model `path` in the project `root`, the value of the setting `where`.

    Raises ParameterError if it is not in data/local or runs, or depends on a link that changes with every run. The
    folder may be missing or damaged.
    """
    folder, value, parts = root / path, f"params.yaml: {where} is {path!r}", Path(path).parts
    of_run = len(parts) == 3 and parts[::2] == (RUNS, "model") and is_name(parts[1])
    if not of_run and not is_inside(folder, root / LOCAL):
        raise ParameterError(f"{value}; expected a saved model, data/local/FOLDER or runs/NAME/model")
    runs = (root / RUNS).resolve()
    links = {link.name for link in _links(folder.absolute()) if link.parent == runs} if folder.exists() else set()
    if moving := MOVING & (links | {parts[1]} if of_run else links):
        raise ParameterError(
            f"{value}, but the link {RUNS}/{min(moving)} changes with every run; set it to the folder that the link "
            f"points to, {RUNS}/NAME/model"
        )
    return folder


def _links(path: Path) -> Iterator[Path]:
    """Yield every link on the way to the existing absolute `path`."""
    for place in (*reversed(path.parents), path):
        if place.is_symlink():
            yield place.parent.resolve() / place.name
            yield from _links(place.parent / place.readlink() / path.relative_to(place))
            return
