"""Attention maps of a saved model for texts.

for maps in epigram.attention_maps("runs/latest/model", ["a text"]):
    print(maps.tokens, maps.attention.shape)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from epigram.core.errors import ParameterError
from epigram.inference.predictors.base_predictor import list_texts
from epigram.inference.predictors.predictor import Predictor, shift_spans
from epigram.models.attention_maps import AttentionMaps, maps_of
from epigram.models.classifier import Classifier
from epigram.text.tokens.characters import strip

END = "<eos>"  # name of the last label row of CNLE


@dataclass(frozen=True, kw_only=True)
class TextAttention(AttentionMaps):
    """Attention maps of one text, with the names of their rows and columns.

    `tokens` (L): each token as it is in the text; prompt, special tokens and the token of an empty text as in the
    vocabulary. `labels` (C): the classes. `label_rows` (C + 1): the labels of the co-attention. `token_labels` (S).
    """

    tokens: list[str]
    labels: list[str]
    label_rows: list[str]
    token_labels: list[str]


def attention_maps(folder: str | Path, texts: Iterable[str]) -> list[TextAttention]:
    """Return what the model in `folder` attends to in each of the `texts`, computed in float32.

    Raises ParameterError for an exported model, for a model without any of the maps, and for texts that `predict` does
    not accept. A folder that cannot be read raises the errors of `epigram.load`.
    """
    listed, predictor = list_texts(texts), Predictor(Path(folder), precision="fp32")
    return [_map_text(predictor, text) for text in listed]


def _map_text(predictor: Predictor, text: str) -> TextAttention:
    """Return the maps of one text, which is a batch of its own, so that there is no padding."""
    saved = predictor.saved
    maps = AttentionMaps()
    if isinstance(saved.model, Classifier) and saved.model.encoder.keeps_tokens:
        maps = maps_of(saved.model, predictor.batches([text]).gather(np.zeros(1, np.int64)))
    arrays = vars(maps)
    if all(each is None for each in arrays.values()):
        raise ParameterError(
            f"{saved.folder}: system {saved.system} has no attention maps; use a model of a system with attention, "
            "such as cnle, that is not exported"
        )
    return TextAttention(
        tokens=_token_names(predictor, text),
        labels=saved.labels,
        label_rows=[*saved.labels, END],
        token_labels=saved.frame.token_labels,
        **arrays,
    )


def _token_names(predictor: Predictor, text: str) -> list[str]:
    """Return the names of the tokens that the model reads of `text`."""
    frame, entries = predictor.saved.frame, predictor.vocabulary
    prefix, suffix = ([entries[index] for index in ids] for ids in (frame.prefix_ids, frame.suffix_ids))
    tokens = shift_spans(predictor.encoder.encode_with_positions([strip(text)], predictor.room), [text])
    own = [
        text[start:end] or entries[index] for index, (start, end) in zip(tokens.ids.values, tokens.spans, strict=True)
    ]
    return [*prefix, *own, *suffix]
