"""Small Model2Vec folder with random vectors, and the encoding of a text read from Model2Vec's formula."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from epigram.text.tokens.tokenizers import SPECIALS, wordpiece_tokenizer

UNKNOWN, WIDTH = 1, 24


def write_model(
    folder: Path, words: Sequence[str], *, normalize: bool | None = True, weighted: bool = False, mapped: bool = False
) -> dict[str, NDArray[Any]]:
    """Write tokenizer.json, model.safetensors and config.json of a model with `words`; return its tensors."""
    draw, tokens = np.random.default_rng(0), len(SPECIALS) + len(words)
    rows = 5 if mapped else tokens
    tensors: dict[str, NDArray[Any]] = {"embeddings": draw.normal(size=(rows, WIDTH)).astype(np.float32)}
    if weighted:
        tensors["weights"] = draw.uniform(0.1, 2.0, tokens).astype(np.float32)
    if mapped:
        tensors["mapping"] = draw.integers(0, rows, tokens)
    folder.mkdir(parents=True, exist_ok=True)
    wordpiece_tokenizer([*SPECIALS, *words]).save(str(folder / "tokenizer.json"))
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "hidden_dim": WIDTH, "seq_length": 1000000}
    config |= {} if normalize is None else {"normalize": normalize}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return tensors


def encoding(tensors: dict[str, NDArray[Any]], ids: Sequence[int], *, normalize: bool) -> NDArray[np.float64]:
    """Return the encoding (D,) of one text in float64, token by token: unknown tokens are removed before the mean."""
    total, count = np.zeros(tensors["embeddings"].shape[1]), 0
    for token in ids:
        if token == UNKNOWN:
            continue
        row = tensors["mapping"][token] if "mapping" in tensors else token
        weight = float(tensors["weights"][token]) if "weights" in tensors else 1.0
        total, count = total + weight * tensors["embeddings"][row].astype(np.float64), count + 1
    mean = total / count if count else total
    return mean / (np.sqrt((mean**2).sum()) + 1e-32) if normalize else mean
