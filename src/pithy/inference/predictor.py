"""A saved model that answers: texts in, labels and probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pithy.systems.saved import Saved, load
from pithy.text.encoding import TextEncoder
from pithy.text.tokenizers import load as load_tokenizer
from pithy.training.batches import TextBatches
from pithy.training.predict import predict


@dataclass(frozen=True)
class Answer:
    """The likeliest label of a text, its probability, and those of all labels.

    Where a text may have several labels, `label` names all that are likelier than not, with commas between.
    """

    label: str
    probability: float
    probabilities: dict[str, float]


class Predictor:
    """Loads a model's folder once and answers for as many texts as come."""

    def __init__(self, folder: Path) -> None:
        self.saved: Saved = load(folder)
        self.encoder = TextEncoder(load_tokenizer(folder / "tokenizer.json"))

    def batches(self, texts: Sequence[str]) -> TextBatches:
        """`texts` as the model reads them."""
        frame = self.saved.frame
        encoded = self.encoder.encode(texts, frame.max_length)
        return TextBatches(
            encoded.ids,
            encoded.offsets,
            prefix=frame.prefix_ids,
            suffix=frame.suffix_ids,
            max_length=frame.max_length,
            pad_id=frame.pad_id,
            unk_id=frame.unk_id,
        )

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Probabilities (N, C) of `texts`, columns in the order of the model's labels."""
        if not texts:
            return np.zeros((0, len(self.saved.labels)), dtype=np.float32)
        return predict(self.saved.model, self.batches(texts)).probabilities

    def answer(self, texts: Sequence[str]) -> list[Answer]:
        """One answer a text."""
        labels, table = self.saved.labels, self.probabilities(texts)
        return [
            Answer(self._named(row), float(row.max()), dict(zip(labels, map(float, row), strict=True))) for row in table
        ]

    def _named(self, row: NDArray[np.float32]) -> str:
        if self.saved.model.multi:
            return ", ".join(self.saved.labels[c] for c in np.flatnonzero(row > 0.5))
        return self.saved.labels[row.argmax()]
