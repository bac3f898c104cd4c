"""Saved models in MLflow: `mlflow.pyfunc.load_model` imports this module to load one, without a pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epigram.core.errors import ParameterError
from epigram.inference.predictors.base_predictor import BasePredictor
from epigram.inference.predictors.open_predictor import open_predictor
from epigram.inference.tables import VALUES, schema_of


class PyfuncModel:
    """Model with the method that MLflow's flavour pyfunc requires."""

    def __init__(self, predictor: BasePredictor) -> None:
        self.predictor, self.columns = predictor, list(schema_of(predictor))

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return a data frame of predictions, with the columns that `epigram predict` adds to a table.

        `model_input` is a list of texts, or a data frame with the text columns of the training or the column text.
        There are no `params`.
        """
        import pandas as pd

        predictions = self.predictor.predict(self._texts(model_input))
        default = self.predictor.default_word_label
        return pd.DataFrame({name: [VALUES[name](each, default) for each in predictions] for name in self.columns})

    def _texts(self, model_input: Any) -> list[str]:
        if not hasattr(model_input, "columns"):
            return [model_input] if isinstance(model_input, str) else list(map(str, model_input))
        trained, found = self.predictor.text_columns, set(model_input.columns)
        names = trained if set(trained) <= found else ["text"]
        if not set(names) <= found:
            raise ParameterError(f"the data frame has no column 'text'; expected one, or {', '.join(trained)}")
        values = [model_input[name].fillna("").astype(str) for name in names]
        return [self.predictor.join.join(parts) for parts in zip(*values, strict=True)]


def _load_pyfunc(folder: str) -> PyfuncModel:
    """Load the model in `folder`; MLflow calls this function by its name."""
    return PyfuncModel(open_predictor(Path(folder)))
