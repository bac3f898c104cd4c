"""Export of a linear SVM to ONNX: n-gram counts in, logits and probabilities out. The n-grams are stored as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from epigram.core.files import write_text
from epigram.inference.onnx.graph import OPSET, check_graph
from epigram.inference.predictors.runtimes import NgramModel
from epigram.models.linear_svm import LinearSvm
from epigram.models.serialization import NGRAMS, Saved
from epigram.nn.layers.ngrams import SPELLED

INPUTS, OUTPUTS = ("ngrams", "counts"), ("logits", "probabilities")


class CountsToProbabilities(nn.Module):
    """A linear SVM as a function of n-gram counts."""

    def __init__(self, model: LinearSvm) -> None:
        super().__init__()
        self.idf, self.weight = model.idf, model.weight.detach()
        self.bias, self.scale, self.multi = model.bias.detach(), model.scale, model.multi
        self.sublinear, self.spelled = model.sublinear, int((model.keys < 0).sum())
        self.share = model.share

    def forward(self, ngrams: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and probabilities (B, C) for n-gram indices (B, K) and their counts (B, K), 0 for padding."""
        frequency = 1 + counts.clamp(min=1).float().log() if self.sublinear else counts.float()
        value = torch.where(counts > 0, frequency, 0.0) * embedding(ngrams, self.idf[:, None]).squeeze(-1)
        of_characters = ngrams < self.spelled  # character n-grams come first
        value = torch.where(of_characters, _unit(value, of_characters), _unit(value, ~of_characters))
        margin = ((value * self.share).unsqueeze(1) @ embedding(ngrams, self.weight)).squeeze(1) + self.bias
        logits = margin * self.scale
        return logits, logits.sigmoid() if self.multi else logits.softmax(1)


def _unit(value: Tensor, part: Tensor) -> Tensor:
    """Return the values (B, K) divided by the L2 norm of the `part` (B, K) of each row."""
    squares = torch.where(part, value.square(), 0.0).sum(1, keepdim=True)
    return value / squares.clamp(min=1e-12).sqrt()


def write_ngrams(model: LinearSvm, path: Path) -> None:
    """Write the n-grams as lists of token ids, one list per order, in the order of the rows of the weight matrix.

    Keys of a lower order are smaller, so the concatenated lists number all n-grams from 0. If the model counts n-grams
    of characters, their lists of character ids come first; the id `alphabet` is the mark before and after a token.
    """
    counted, keys = model.counted, model.keys
    stored: dict[str, Any] = {"vocabulary": counted.vocabulary}
    if counted.spelled is not None:
        spelled = _lists(keys[keys < 0] - SPELLED, counted.alphabet, counted.spelled, 1)
        stored |= {"alphabet": counted.alphabet, "characters": spelled}
    stored["ngrams"] = _lists(keys[keys >= 0], counted.vocabulary, counted.orders, 0)
    write_text(path, json.dumps(stored, separators=(",", ":")))


def _lists(keys: Tensor, size: int, orders: tuple[int, int], first: int) -> dict[int, list[list[int]]]:
    """Return the n-grams of `keys` as lists of ids from `first` on, by order."""
    found, base = {}, size + 1
    for n in range(orders[0], orders[1] + 1):
        of_order = (keys >= base ** (n - 1)) & (keys < base**n)
        digits = [keys[of_order] // base**place % base for place in reversed(range(n))]
        found[n] = (torch.stack(digits, 1) - 1 + first).tolist()
    return found


def write_graph(saved: Saved, path: Path) -> None:
    """Export the SVM to the file `path`, and its n-grams to the same folder.

    Raises ParameterError if the graph's output differs from the model's.
    """
    model = saved.model
    write_ngrams(model, path.with_name(NGRAMS))
    example = torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.int64)
    program = torch.onnx.export(
        CountsToProbabilities(model),
        example,
        opset_version=OPSET,
        dynamic_shapes=({0: "texts", 1: "length"},) * 2,
        input_names=list(INPUTS),
        output_names=list(OUTPUTS),
        verbose=False,
    )
    assert program is not None
    program.save(path, external_data=False)
    check_graph(saved, NgramModel(path, multi=model.multi))
