"""The training texts that are nearest to a text, of a model whose fit saved its training texts.

`training_texts.jsonl` has the texts with their labels. Their vectors in the encoder of the model are in
`training_vectors.safetensors`, in half precision; for a linear model, TF-IDF features are computed from the texts.
Shapes: N training texts, B texts, D width of the vectors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.config_types import has_type, parse_json
from epigram.core.errors import DataError, TryAgainError
from epigram.core.files import write_arrays, write_text
from epigram.core.masking import masked
from epigram.inference.predictors.base_predictor import BasePredictor
from epigram.inference.predictors.ensemble_predictor import EnsemblePredictor
from epigram.inference.predictors.explanation import SimilarText
from epigram.inference.predictors.open_predictor import open_predictor
from epigram.inference.predictors.predictor import Predictor
from epigram.models import manifest
from epigram.models.linear_svm import LinearSvm
from epigram.models.manifest import TRAINING_TEXTS, TRAINING_VECTORS
from epigram.models.serialization import read_tensors
from epigram.models.vectors import unit_vectors

NEAREST = 5
DECIMALS = 5  # similarities are rounded, because half precision changes further digits
BATCH = 4_096  # texts whose TF-IDF features are computed at once


@dataclass(frozen=True)
class Neighbors:
    """Training texts with their labels, and their vectors (N, D) of length 1, a sparse matrix for a linear model."""

    source: Predictor
    texts: list[str]
    labels: list[list[str]]
    vectors: Any

    def find(self, texts: Sequence[str]) -> list[list[SimilarText]]:
        """Return the nearest training texts of each of B texts, B > 0, at most NEAREST, the nearest one first."""
        queries = _vectors(self.source, texts)
        dense = queries if isinstance(queries, np.ndarray) else (queries[[n]].toarray()[0] for n in range(len(texts)))
        return [self._nearest(self.vectors @ query) for query in dense]

    def _nearest(self, similarities: NDArray[np.floating[Any]]) -> list[SimilarText]:
        """Return the texts with the largest `similarities` (N,) above 0; equal ones are in the order of train."""
        rounded, most = np.round(similarities.astype(np.float64), DECIMALS), min(NEAREST, len(similarities))
        places = np.flatnonzero((rounded >= np.partition(rounded, -most)[-most]) & (rounded > 0))
        chosen = places[np.argsort(-rounded[places], kind="stable")][:most]
        return [
            SimilarText(text=self.texts[place], labels=self.labels[place], similarity=float(rounded[place]))
            for place in chosen.tolist()
        ]


def write_neighbors(folder: Path, texts: Sequence[str], labels: Sequence[Sequence[str]]) -> None:
    """Write the training texts of the model in `folder`, masked as in the report, and their vectors to the folder.

    For an ensemble, they are written to the folder of one of its members.
    """
    source, texts = _source(open_predictor(folder)), list(map(masked, texts))
    rows = ({"text": text, "labels": list(names)} for text, names in zip(texts, labels, strict=True))
    lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    if not isinstance(source.saved.model, LinearSvm):
        write_arrays(source.folder / TRAINING_VECTORS, {"vectors": source.embed(texts).astype(np.float16)})
    write_text(source.folder / TRAINING_TEXTS, lines)
    for each in dict.fromkeys((source.folder, folder)):  # the manifest of an ensemble lists the manifest of the member
        manifest.write(each, manifest.read_facts(each))


def read_neighbors(predictor: BasePredictor) -> Neighbors | None:
    """Return the training texts that were saved with the model; None if there are none.

    Raises DataError for files that do not fit together, TryAgainError if the folder changed after the model was loaded.
    """
    source = _source(predictor)
    path = source.folder / TRAINING_TEXTS
    if not path.exists():
        return None
    if manifest.stamps(source.folder) != source.stamps:  # the checksums are compared when the model is loaded
        raise TryAgainError(f"{source.folder} changed after it was loaded; load it again")
    texts, labels = _read_texts(path)
    if isinstance(source.saved.model, LinearSvm):
        return Neighbors(source, texts, labels, _vectors(source, texts))
    stored = source.folder / TRAINING_VECTORS
    vectors = read_tensors(stored).get("vectors") if stored.exists() else None
    if vectors is None or vectors.shape != (len(texts), source.saved.model.encoder.width):
        raise DataError(f"{stored} does not have a vector for each text of {path.name}; restore the model's folder")
    return Neighbors(source, texts, labels, unit_vectors(vectors.float().numpy()))


def _read_texts(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the training texts, and the labels of each. Raises DataError for a file of another kind."""
    try:
        with path.open(encoding="utf-8") as lines:
            rows = list(map(parse_json, lines))
        texts, labels = [row["text"] for row in rows], [row["labels"] for row in rows]
        if not texts or not has_type(texts, list[str]) or not has_type(labels, list[list[str]]):
            raise ValueError("type")
    except (LookupError, TypeError, ValueError):
        raise DataError(f"{path} does not have texts with labels; restore the model's folder") from None
    return texts, labels


def _source(predictor: BasePredictor) -> Predictor:
    """Return the single model that has the vectors."""
    found = predictor.embedder if isinstance(predictor, EnsemblePredictor) else predictor
    assert isinstance(found, Predictor)
    return found


def _vectors(source: Predictor, texts: Sequence[str]) -> Any:
    """Return the vectors (B, D) of `texts`, of length 1; a sparse matrix of TF-IDF features for a linear model."""
    model = source.saved.model
    if not isinstance(model, LinearSvm):
        return source.embed(texts)
    from scipy import sparse
    from sklearn.preprocessing import normalize

    parts = []
    for start in range(0, len(texts), BATCH):
        batches = source.batches(texts[start : start + BATCH])
        row, feature, value = (part.numpy() for part in model.features(batches.gather(np.arange(len(batches)))))
        parts.append(sparse.csr_array((value, (row, feature)), (len(batches), len(model.keys))))
    return normalize(sparse.vstack(parts, format="csr"))
