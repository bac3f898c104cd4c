"""Statistics of the texts that a served model has predicted: counts of answers, and the newest texts for drift."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from epigram.core.arrays import lengths_of
from epigram.core.config_types import validate_as
from epigram.core.files import read_json
from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction
from epigram.monitoring import REFERENCE
from epigram.monitoring.drift import Measure, Reference, measure, ngram_similarity, unknown_share
from epigram.text.tokens.characters import strip

BINS = 10  # equal parts of the confidence, from 0 to 1
WINDOW = 1000  # newest texts that drift is measured on


class Seen(NamedTuple):
    """A text, the label that the model chooses whatever its confidence, and the highest probability."""

    text: str
    label: str
    confidence: float


class InputStatistics:
    """Counts since the start, and the newest texts since the model was loaded.

    Texts of nothing but whitespace, which get no label, are only in `texts` and `empty`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.texts = self.empty = self.unlabelled = self.truncated = 0
        self.labels: Counter[str] = Counter()
        self.confidence, self.confidence_sum = np.zeros(BINS, dtype=np.int64), 0.0
        self._newest: deque[Seen] = deque(maxlen=WINDOW)

    def add(self, predictor: BasePredictor, texts: Sequence[str], answers: Sequence[TextPrediction]) -> None:
        """Count one batch and its answers by `predictor`."""
        filled = [(text, answer) for text, answer in zip(texts, answers, strict=True) if strip(text)]
        rows = np.array([list(answer.probabilities.values()) for _, answer in filled], dtype=np.float32)
        rows = rows.reshape(len(filled), len(predictor.labels))
        chosen, values = predictor.choose(rows).tolist(), rows.max(1, initial=0.0)
        seen = [
            Seen(text, predictor.labels[label], confidence)
            for (text, _), label, confidence in zip(filled, chosen, values.tolist(), strict=True)
        ]
        bins = np.clip(np.ceil(values * BINS) - 1, 0, BINS - 1).astype(np.int64)
        with self._lock:
            self.texts += len(texts)
            self.empty += len(texts) - len(filled)
            self.unlabelled += sum(not answer.labels for _, answer in filled)
            self.truncated += sum(answer.truncated for _, answer in filled)
            self.labels.update(label for _, answer in filled for label in answer.labels)
            self.confidence += np.bincount(bins, minlength=BINS)
            self.confidence_sum += float(values.sum())
            self._newest += seen

    def newest(self) -> list[Seen]:
        """Return the newest texts, at most WINDOW."""
        with self._lock:
            return list(self._newest)

    def label_counts(self) -> dict[str, int]:
        """Return how many texts have got each label."""
        with self._lock:
            return dict(self.labels)

    def forget_texts(self) -> None:
        """Forget the newest texts, because another model has predicted them."""
        with self._lock:
            self._newest.clear()


def read_reference(folder: Path) -> Reference | None:
    """Return the statistics of the texts that the model in `folder` knows; None if no promotion has written them.

    A promotion writes them next to the folder, as in runs/champion. Raises DataError for an invalid file.
    """
    file = folder.parent / REFERENCE
    return validate_as(Reference, read_json(file), file=str(file)) if file.is_file() else None


def unknown_tokens(predictor: BasePredictor, texts: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the share of unknown tokens of each text, (N,)."""
    ids = predictor.encoder.encode(texts, predictor.room).ids
    return np.asarray(unknown_share(ids, predictor.encoder.unk_id))


def drift_of(predictor: BasePredictor, newest: Sequence[Seen], reference: Reference) -> list[Measure]:
    """Return how far the newest texts and their predictions are from the reference, as `epigram drift` does."""
    texts, codes = [one.text for one in newest], {label: code for code, label in enumerate(reference.labels)}
    values = {
        "length": lengths_of(texts),
        "unknown": unknown_tokens(predictor, texts),
        "likeness": ngram_similarity(texts, reference.ngrams),
        "predicted": np.array([codes[one.label] for one in newest if one.label in codes], dtype=np.int64),
        "confidence": np.array([one.confidence for one in newest]),
    }
    return measure(reference, values, threshold=0.0)
