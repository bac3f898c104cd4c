"""Export of a model to ONNX for any batch size and text length, and the comparison of the graph with the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.inference.predictors.runtimes import GraphModel
from epigram.models.batches import NO_WORD, TextBatches
from epigram.models.serialization import Saved
from epigram.models.text_template import character_count
from epigram.nn.layers.types import Prediction, Tokens

AXES = ("texts", "length")
INPUTS = {"ids": AXES, "valid": AXES, "characters": (*AXES, "letters"), "word_weight": AXES}
OUTPUTS = ("logits", "tokens")  # fields of Prediction; the inputs are fields of Tokens
OPSET = 20
TOLERANCE = 1e-4  # maximum difference of a logit, relative to the model's largest logit if that is above 1
TRACE_SHAPE = (4, 12)  # (texts, tokens) of the batch that is traced
CHECK_SHAPES = ((1, 1), (3, 17), (1, 1_000))  # (texts, tokens); the model may truncate them


class TraceableModel(nn.Module):
    """A model as a function of tensors, for the exporter."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Tensor, valid: Tensor, characters: Tensor | None = None, word_weight: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the outputs that the model gives, in the order of `OUTPUTS`."""
        predicted: Prediction = self.model(Tokens(ids, valid, characters=characters, word_weight=word_weight))
        return tuple(out for name in OUTPUTS if (out := getattr(predicted, name)) is not None)


def export_error(saved: Saved, reason: str) -> ParameterError:
    """Return the error for a model that cannot be exported."""
    return ParameterError(f"system {saved.system} cannot be exported: {reason}")


def random_batch(saved: Saved, texts: int, length: int) -> Tokens:
    """Return a batch of random tokens in the model's input format.

    The first text has `length` tokens, every other text at most that many.
    """
    frame, random = saved.frame, np.random.default_rng(0)
    lengths = np.append(length, random.integers(1, length + 1, texts - 1))
    total = int(lengths.sum())
    characters = None
    if letters := character_count(frame.characters):
        characters = Ragged(random.integers(2, letters, 3 * total), 3 * np.arange(total + 1))
    ids = Ragged.from_lengths(random.integers(0, frame.vocabulary, total), lengths)
    weight = None if frame.pos_words is None else random.choice([NO_WORD, 0.5, 1.0], total)
    batches = TextBatches.from_template(frame, ids, characters=characters, word_weight=weight)
    return batches.gather(np.arange(texts))


def write_graph(saved: Saved, path: Path) -> None:
    """Export the model to the file `path`.

    Raises ParameterError if the export fails or if the graph's output differs from the model's.
    """
    tokens = random_batch(saved, *TRACE_SHAPE)
    inputs = {name: axes for name, axes in INPUTS.items() if getattr(tokens, name) is not None}
    with torch.no_grad():
        predicted = saved.model(tokens)
    try:
        program = torch.onnx.export(
            TraceableModel(saved.model),
            kwargs={name: getattr(tokens, name) for name in inputs},
            opset_version=OPSET,
            dynamic_shapes={name: dict(enumerate(axes)) for name, axes in inputs.items()},
            input_names=list(inputs),
            output_names=[name for name in OUTPUTS if getattr(predicted, name) is not None],
            custom_translation_table={torch.ops.aten.sort.stable: _stable_sort},
            verbose=False,
        )
    except torch.onnx.OnnxExporterError as error:
        raise export_error(saved, f"PyTorch cannot convert a part of it to ONNX ({type(error).__name__})") from error
    assert program is not None
    program.save(path, external_data=False)
    check_graph(saved, GraphModel(path, multi=saved.model.multi))


def _stable_sort(x: Any, stable: bool, dim: int = -1, descending: bool = False) -> Any:
    """Translate a stable sort to ONNX TopK, which keeps equal values in their order."""
    from onnxscript import opset20 as op

    count = op.Gather(op.Shape(x), op.Constant(value_ints=[dim]))  # type: ignore[type-var]
    return op.TopK(x, count, axis=dim, largest=int(descending), sorted=1)


@torch.inference_mode()
def check_graph(saved: Saved, graph: GraphModel) -> None:
    """Raise ParameterError if the outputs of `graph` and of the model differ by more than TOLERANCE."""
    for texts, length in CHECK_SHAPES:
        tokens = random_batch(saved, texts, length)
        expected, actual = saved.model(tokens), graph(tokens)
        difference = (expected.logits - actual.logits).abs().max()
        if expected.tokens is not None and actual.tokens is not None:
            difference = torch.maximum(difference, (expected.tokens - actual.tokens)[tokens.valid].abs().max())
        if not difference <= TOLERANCE * max(1.0, float(expected.logits.abs().max())):
            shape = "×".join(map(str, tokens.ids.shape))
            raise export_error(
                saved, f"the graph's output differs by {difference:.1g} in a logit for a batch of {shape} tokens"
            )
