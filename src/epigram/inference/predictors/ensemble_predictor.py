"""Prediction with a saved ensemble: the weighted mean of its members' probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.errors import DataError
from epigram.evaluation.ensemble.weights import Blend
from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction
from epigram.inference.predictors.predictor import Predictor
from epigram.models import ensemble
from epigram.models.classifier import NeuralClassifier
from epigram.models.devices import AUTO
from epigram.models.manifest import read_hierarchy, require_unchanged
from epigram.models.precision import Precision


class EnsemblePredictor(BasePredictor):
    """Predictor that loads the folder of an ensemble once and then predicts any number of texts.

    A text counts as truncated if any member truncates it. `encoder` is the encoder of the member with the largest
    weight. No words are labelled. Raises DataError if the members do not fit, ParameterError for a `device` that does
    not exist or that cannot run a member.
    """

    def __init__(
        self, folder: Path, *, precision: Precision = "auto", min_confidence: float = 0.0, device: str = AUTO
    ) -> None:
        with require_unchanged(folder):
            saved, hierarchy = ensemble.load(folder), read_hierarchy(folder)
            self.members = [Predictor(saved.member(name), precision=precision, device=device) for name in saved.weights]
        rule: dict[str, Any] = {"multi": saved.multi, "min_confidence": min_confidence, "prices": saved.prices}
        super().__init__(folder, saved.labels, saved.thresholds, hierarchy=hierarchy, **rule)
        for member in self.members:
            if (member.labels, member.multi) != (self.labels, self.multi):
                raise DataError(f"{member.folder} does not have the labels of the ensemble; restore the folder")
        self.blend = Blend(np.array(list(saved.weights.values())), saved.temperature)
        first = self.members[0]
        self.language, self.text_columns, self.join = first.language, first.text_columns, first.join
        self.room = min(member.room for member in self.members)
        self.encoder = self.members[int(self.blend.weights.argmax())].encoder

    @property
    def embedder(self) -> Predictor:
        """The member whose vectors are used: of the largest weight, among members with an encoder if there are any."""
        ranked = zip(self.members, self.blend.weights.tolist(), strict=True)
        return max(ranked, key=lambda each: (isinstance(each[0].saved.model, NeuralClassifier), each[1]))[0]

    def embed(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return the vectors (N, D) of `texts` in the encoder of a member; see `BasePredictor.embed`."""
        return self.embedder.embed(texts)

    def _probabilities(self, texts: list[str]) -> NDArray[np.float32]:
        return self._blend([member.run(texts)[0].probabilities for member in self.members])

    def _predict(self, texts: list[str]) -> list[TextPrediction]:
        answers = [member.run(texts) for member in self.members]
        truncated = np.any([each for _, each in answers], axis=0).tolist()
        rows = self._blend([predicted.probabilities for predicted, _ in answers])
        return [self._prediction(row, [], cut) for row, cut in zip(rows, truncated, strict=True)]

    def _blend(self, members: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        return self.blend.apply(members, multi=self.multi).astype(np.float32)
