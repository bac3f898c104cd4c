"""Teacher of the students of a run, and what they learn from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import read_arrays, sha256, write_arrays
from epigram.core.records import read_record
from epigram.evaluation.ensemble_record import ENSEMBLE, EnsembleRecord
from epigram.evaluation.label_probabilities import LabelProbabilities, of_seed
from epigram.evaluation.results import Metrics, read_evaluation
from epigram.evaluation.stored_probabilities import probabilities_of
from epigram.evaluation.student_record import teacher_of
from epigram.evaluation.thresholds import tuned_thresholds
from epigram.models.predict import Array
from epigram.models.provenance import code_hash
from epigram.text.dataset.encoded_dataset import View

KEPT = Path(".epigram/taught")  # predictions of teachers


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """A system or the ensemble: `models` has the folder of each seed's model, and `evaluated` is its evaluation.

    All probabilities are calibrated: they have the temperature of the model.
    """

    name: str
    models: Path
    evaluated: Path

    def manifest(self, seed: int) -> Path:
        """Return the manifest of the model of a seed."""
        return self.models / f"seed-{seed}" / "manifest.json"

    def targets(self, view: View, seed: int, label_weight: float) -> Array:
        """Return the probabilities (N + M, C) that a student learns.

        Those of the N training texts are 0 and 1, as the labels say. If train has folds, they are the mean of these,
        with `label_weight`, and of the teacher's out-of-fold probabilities. Those of the M texts without labels of the
        view are the teacher's.
        """
        labels = np.asarray(view.split("train").labels)
        known = labels if view.task == "multi" else labels[:, None] == np.arange(len(view.labels))
        known = known.astype(np.float32)
        if view.folds:
            known = label_weight * known + (1 - label_weight) * self.out_of_fold(view, seed)
        return np.concatenate([known, self.probabilities(view, seed)]).astype(np.float32)

    def thresholds(self, view: View, seed: int) -> list[float] | None:
        """Return the thresholds (C,) of a student, if train has folds and a text may have several labels.

        They have the best micro-F1 on the out-of-fold probabilities: those of a student for new texts are similar. The
        cross-validation of the student learns labels alone.
        """
        if not view.folds or view.task != "multi":
            return None
        labels = np.asarray(view.split("train").labels)
        thresholds: list[float] = tuned_thresholds(labels > 0, self.out_of_fold(view, seed)).tolist()
        return thresholds

    def out_of_fold(self, view: View, seed: int) -> Array:
        """Return the probabilities (N, C) of the training texts, each by models that were trained without its fold.

        Raises DataError if the evaluation is not one of these texts.
        """
        evaluation = read_evaluation(self.evaluated)
        known, seeds = evaluation.predictions, [each.seed for each in evaluation.metrics.seeds]
        if seed not in seeds or not np.array_equal(known.dev_rows, view.split("train").rows):
            raise DataError(f"{self.evaluated} does not evaluate seed {seed} on the folds of train; run dvc repro")
        found = of_seed(probabilities_of(evaluation, "dev"), seeds.index(seed))
        whole: Array = found.dense()[0] if isinstance(found, LabelProbabilities) else found[0]
        return whole

    def probabilities(self, view: View, seed: int) -> Array:
        """Return the probabilities (M, C) of the texts without labels of `view`.

        They are kept in KEPT by the teacher, the texts and the code, for the other students of the view and for an
        interrupted run. A damaged file is written again.
        """
        from epigram.inference.open_predictor import open_predictor
        from epigram.text.student_texts import TEXTS, load_texts

        manifest = self.manifest(seed)
        digests = sha256(manifest), sha256(view.folder / TEXTS), code_hash()
        kept = KEPT / f"{'-'.join(digest[:16] for digest in digests)}.safetensors"
        try:
            taught: Array = read_arrays(kept)["probabilities"]
        except (DataError, InputMissingError, KeyError):
            taught = open_predictor(manifest.parent).probabilities(load_texts(view.folder))
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_arrays(kept, {"probabilities": taught})
        return taught


def find_teacher(systems: Sequence[str], evaluated: Path, ensemble: Path, pruned: Path) -> Teacher:
    """Return the ensemble or, if there is none, the best of the `systems` on the development set."""
    metrics = [read_record(Metrics, evaluated / name / "metrics.json") for name in systems]
    name = teacher_of(EnsembleRecord.read(ensemble), metrics)
    if name == ENSEMBLE:
        return Teacher(name=name, models=ensemble, evaluated=ensemble)
    return Teacher(name=name, models=pruned / name, evaluated=evaluated / name)
