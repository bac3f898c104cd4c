"""Saving of a trained model, with the facts of its training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epigram.core.files import sha256
from epigram.models.manifest import TrainingFacts
from epigram.models.predict import Array
from epigram.models.provenance import parameters_hash
from epigram.models.recipe import Recipe
from epigram.models.serialization import save
from epigram.models.text_template import TextTemplate
from epigram.text.encoded_dataset import View
from epigram.training.config import TrainingConfig
from epigram.training.trained import Trained


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a model was made of: `pretrained` is the folder of its encoder, `teacher` the manifest of its teacher."""

    recipe: Recipe
    config: TrainingConfig
    view: View
    seed: int
    pretrained: Path | None = None
    teacher: Path | None = None

    @property
    def provenance(self) -> dict[str, str]:
        """Checksums of the data, the encoder and the teacher, and of the settings."""
        files = {"pretrained": self.pretrained and self.pretrained / "encoder.safetensors", "teacher": self.teacher}
        found = {name: sha256(file) for name, file in files.items() if file is not None}
        own = parameters_hash(seed=self.seed, system=vars(self.recipe), training=vars(self.config))
        return {"data": self.view.fingerprint, **found, "parameters": own}


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """Held-out `score` of a trained model, and what was tuned on held-out texts.

    `thresholds` (C,) are those of a model that gives a text several labels, `out_of_fold` (N, C) the logits of a
    cross-validation.
    """

    score: float
    thresholds: list[float] | None
    history: list[dict[str, float]]
    out_of_fold: Array | None = None


def save_trained(folder: Path, trained: Trained, tuned: Tuned, frame: TextTemplate, origin: Origin) -> None:
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
