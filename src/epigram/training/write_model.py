"""Saving of a trained model, with the facts of its training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.files import sha256
from epigram.inference.predictors.dataset_batches import default_device
from epigram.models.manifest import TrainingFacts, parameters_hash
from epigram.models.predict import Array
from epigram.models.serialization import save
from epigram.models.text_template import TextTemplate
from epigram.training.distributed.resources import hardware
from epigram.training.fitters import Trained
from epigram.training.system_setup import Setup

if TYPE_CHECKING:
    from epigram.training.teacher import Teacher


@dataclass(frozen=True, kw_only=True)
class Origin(Setup):
    """What the model of a seed was made of, and its teacher, if it is a student."""

    seed: int
    teacher: Teacher | None = None

    @property
    def provenance(self) -> dict[str, str]:
        """Checksums of the data, the encoder and the teacher, and of the settings."""
        found = {} if self.weights is None else {"pretrained": sha256(self.weights)}
        if self.teacher is not None:
            found["teacher"] = self.teacher.digest
        if self.teacher is None or self.teacher.has_own_data:  # what else the teacher learned may include dev and test
            found["rows"] = self.view.rows_digest
        settings = {"seed": self.seed, "system": vars(self.recipe), "training": vars(self.config)}
        weight = {} if self.teacher is None else {"label_weight": self.teacher.label_weight}
        return {"data": self.view.fingerprint, **found, "parameters": parameters_hash(**settings, **weight)}


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """Held-out `score` of a trained model, and what was tuned on held-out texts.

    `thresholds` (C,) are those of a model that gives a text several labels, and `out_of_fold` (N, C) the logits of a
    cross-validation.
    """

    score: float
    thresholds: list[float] | None
    history: list[dict[str, float]]
    out_of_fold: Array | None = None


def write_model(folder: Path, trained: Trained, tuned: Tuned, frame: TextTemplate, origin: Origin) -> None:
    """Write the model folder of `trained`, which reads texts as `frame` says, atomically."""
    view = origin.view
    facts: dict[str, Any] = vars(
        TrainingFacts(
            dataset=view.corpus,
            data=view.fingerprint,
            seed=origin.seed,
            rate=trained.rate,
            dev_accuracy=tuned.score,
            epoch=trained.epoch,
            depth_full=trained.depth,
            parameters_full=trained.parameters,
            training=vars(origin.config),
            provenance=origin.provenance,
            hardware=hardware(origin.config.precision, default_device()),
        )
    )
    save(
        folder,
        trained.model,
        recipe=origin.recipe,
        frame=frame,
        labels=view.labels,
        tokenizer=view.tokenizer_json,
        facts=facts,
        thresholds=tuned.thresholds,
        history=tuned.history,
        out_of_fold=tuned.out_of_fold,
    )
