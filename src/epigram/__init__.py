"""Training, comparison, depth pruning and deployment of short-text classifiers for Chinese and English.

    import epigram

    model = epigram.load("runs/latest/model")
    for prediction in model.predict(["a text", "another text"]):
        print(prediction.label, prediction.probability)

The names in `__all__` are the public API. They are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from epigram.process.startup import WAITING, limit_library_threads

if TYPE_CHECKING:
    from pathlib import Path

    from epigram.core.errors import DataError, EpigramError, InputMissingError, ParameterError
    from epigram.fitting.classifier import Classifier
    from epigram.fitting.evaluate import evaluate
    from epigram.fitting.fit import fit
    from epigram.fitting.fitted_model import FittedModel
    from epigram.inference.attention import TextAttention, attention_maps
    from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction, Word
    from epigram.inference.predictors.ensemble_predictor import EnsemblePredictor
    from epigram.inference.predictors.explanation import Explanation
    from epigram.inference.predictors.predictor import Predictor
    from epigram.labelling.label import label
    from epigram.runner.workspace.fitted_project import create_project

__all__ = [
    "BasePredictor",
    "Classifier",
    "DataError",
    "EnsemblePredictor",
    "EpigramError",
    "Explanation",
    "FittedModel",
    "InputMissingError",
    "ParameterError",
    "Predictor",
    "TextAttention",
    "TextPrediction",
    "Word",
    "__version__",
    "attention_maps",
    "create_project",
    "evaluate",
    "fit",
    "label",
    "load",
]

MODULES = {
    "epigram.core.errors": ("DataError", "EpigramError", "InputMissingError", "ParameterError"),
    "epigram.fitting.classifier": ("Classifier",),
    "epigram.fitting.evaluate": ("evaluate",),
    "epigram.fitting.fit": ("fit",),
    "epigram.fitting.fitted_model": ("FittedModel",),
    "epigram.inference.attention": ("TextAttention", "attention_maps"),
    "epigram.inference.predictors.explanation": ("Explanation",),
    "epigram.inference.predictors.base_predictor": ("BasePredictor", "TextPrediction", "Word"),
    "epigram.inference.predictors.ensemble_predictor": ("EnsemblePredictor",),
    "epigram.inference.predictors.predictor": ("Predictor",),
    "epigram.labelling.label": ("label",),
    "epigram.runner.workspace.fitted_project": ("create_project",),
}
__version__: str


def load(folder: str | Path, *, min_confidence: float = 0.0, device: str = "auto") -> BasePredictor:
    """Load a saved or exported model, or an ensemble, for prediction; a text below `min_confidence` gets no label.

    `folder` may be the address of a model on the Hugging Face hub, hub:ORG/NAME or hub:ORG/NAME@REVISION: the files
    that its manifest lists are downloaded to the user's cache, and checked.

    `device` is cpu, cuda, cuda:1 or mps; `auto` is the GPU for a network, if there is one, and otherwise the CPU.

    Raises ParameterError for a `min_confidence` outside [0, 1] or with a multi-label model and for a device that does
    not exist, InputMissingError if the folder or one of its files is missing, DataError if a file has changed since
    the model was saved.
    """
    limit_library_threads(limits=WAITING)
    from epigram.inference.hub import local_folder
    from epigram.inference.predictors.open_predictor import open_predictor

    return open_predictor(local_folder(folder), min_confidence=min_confidence, device=device)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import epigram` alone loads no library."""
    if name == "__version__":
        from importlib.metadata import version

        return version("epigram")
    module = next((module for module, names in MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'epigram' has no attribute {name!r}")
    limit_library_threads(limits=WAITING)
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
