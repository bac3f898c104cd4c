"""The predictor of a folder, which may have a saved model, an exported one or an ensemble."""

from __future__ import annotations

from pathlib import Path

from epigram.inference.predictors.base_predictor import BasePredictor
from epigram.models.devices import AUTO
from epigram.models.ensemble import is_ensemble


def open_predictor(folder: Path, *, min_confidence: float = 0.0, device: str = AUTO) -> BasePredictor:
    """Load the model or ensemble in `folder` on a `device`; a text below `min_confidence` gets no label.

    Raises ParameterError for a `min_confidence` outside [0, 1] or with a multi-label model and for a device that does
    not exist, InputMissingError or DataError for a folder that is incomplete or was changed.
    """
    if is_ensemble(folder):
        from epigram.inference.predictors.ensemble_predictor import EnsemblePredictor

        return EnsemblePredictor(folder, min_confidence=min_confidence, device=device)
    from epigram.inference.predictors.predictor import Predictor

    return Predictor(folder, min_confidence=min_confidence, device=device)
