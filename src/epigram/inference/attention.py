"""Attention maps of a saved model: which token of a text attends to which one, in every layer and head.

for maps in epigram.attention_maps("runs/latest/model", ["a text"]):
    print(maps.tokens, maps.attention.shape)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from epigram.core.errors import ParameterError
from epigram.inference.predictors.base_predictor import list_texts
from epigram.inference.predictors.predictor import Predictor, shift_spans
from epigram.models.classifier import NeuralClassifier
from epigram.nn.encoders.pretrained import PretrainedEncoder
from epigram.nn.heads.layer_ensemble import LayerEnsembleHead
from epigram.nn.layers.attention.attention_labeler import AttentionLabeler
from epigram.nn.layers.attention.co_attention import CrossAttention
from epigram.nn.layers.attention.correlation import CorrelationAttention
from epigram.nn.layers.attention.dot_product import DotProductAttention
from epigram.nn.layers.attention.head_to_head import HeadToHead
from epigram.nn.layers.types import Prediction, Tokens
from epigram.text.tokens.characters import strip

Array = NDArray[np.float32]
SELF_ATTENTION = DotProductAttention, CorrelationAttention
RECORDED = *SELF_ATTENTION, HeadToHead, CrossAttention, AttentionLabeler


@dataclass(frozen=True, kw_only=True)
class AttentionMaps:
    """What a model attends to in one text of L tokens; None for a part that the model does not have.

    `attention` (N, H, L, L): the weight of each token (last axis) for each token in every layer and head. It includes
    part-of-speech weights (Transformer-F) and rescaled scores (HTH), so its rows may have another sum than 1.
    `head_factors` (N, H): the factor of each head by head-to-head attention (HTH, Eq. 6).
    `text_to_labels` (H, L, C + 1) and `labels_to_text` (H, C + 1, L): the co-attention of tokens and labels (CNLE).
    Rows of the first sum to 1 over the labels, the last of which is `<eos>`; rows of the second over the tokens.
    `label_probabilities` (L, S): each token's evidence scores, normalized over the heads (MHAL, t̃).
    `label_shares` (L, S): each head's attention weights over the tokens (MHAL, Eq. 6).
    `layer_weights` (N,) and `layer_votes` (N, C): the weight of each layer's classifier and its weighted probabilities,
    which sum to the prediction (DMSP, Eq. 6, 7).
    """

    attention: Array | None = None
    head_factors: Array | None = None
    text_to_labels: Array | None = None
    labels_to_text: Array | None = None
    label_probabilities: Array | None = None
    label_shares: Array | None = None
    layer_weights: Array | None = None
    layer_votes: Array | None = None


class Call(NamedTuple):
    """Call of a module: its arguments and its output."""

    module: Any
    arguments: tuple[Any, ...]
    output: Any


@torch.inference_mode()
def maps_of(model: NeuralClassifier, tokens: Tokens) -> AttentionMaps:
    """Return the maps of `model`, which must be in evaluation mode, for the batch `tokens` (1, L) of one text."""
    with recorded(model, RECORDED) as calls:
        prediction = model(tokens)
    found = {kind: [call for call in calls if isinstance(call.module, kind)] for kind in RECORDED}
    co_attention = [_weights(call) for call in found[CrossAttention]]
    text_to_labels, labels_to_text = co_attention or (None, None)
    evidence = next((call.output for call in found[AttentionLabeler]), None)
    return AttentionMaps(
        attention=_stack(_self_attention(model, tokens, calls)),
        head_factors=_stack([call.output for call in found[HeadToHead]]),
        text_to_labels=_array(text_to_labels),
        labels_to_text=_array(labels_to_text),
        label_probabilities=None if evidence is None else _array(evidence.tokens.softmax(-1)),
        label_shares=None if evidence is None else _array(evidence.shares),
        **_votes(model, prediction),
    )


@contextmanager
def recorded(model: nn.Module, kinds: tuple[type[nn.Module], ...]) -> Iterator[list[Call]]:
    """Record the calls of all modules of `model` of the classes `kinds`, in order."""
    calls: list[Call] = []
    hooks = [
        module.register_forward_hook(lambda *call: calls.append(Call(*call)))
        for module in model.modules()
        if isinstance(module, kinds)
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _self_attention(model: NeuralClassifier, tokens: Tokens, calls: Sequence[Call]) -> Sequence[Tensor]:
    """Return the attention weights (1, H, L, L) of every layer."""
    encoder: Any = model.encoder
    if not isinstance(encoder, PretrainedEncoder):
        return [_weights(call) for call in calls if isinstance(call.module, SELF_ATTENTION)]
    return encoder.attentions(model.head.prepare(tokens, encoder))


def _weights(call: Call) -> Tensor:
    weights: Tensor = call.module.attention_weights(*call.arguments)
    return weights


def _votes(model: NeuralClassifier, prediction: Prediction) -> dict[str, Array | None]:
    """Return the weights and the votes of the layers, if there is a classifier on each."""
    if not isinstance(model.head, LayerEnsembleHead) or prediction.parts is None:
        return {}
    p = prediction.parts[:, 0]
    p = p.sigmoid() if model.multi else p.softmax(-1)
    weights = model.head.beta
    return {"layer_weights": weights.cpu().numpy(), "layer_votes": (weights[:, None] * p).cpu().numpy()}


def _stack(layers: Sequence[Tensor]) -> Array | None:
    """Return the values (1, …) of N layers as (N, …)."""
    return torch.cat(list(layers)).float().cpu().numpy() if layers else None


def _array(batch: Tensor | None) -> Array | None:
    """Return the only row of a `batch` (1, …)."""
    return None if batch is None else batch[0].float().cpu().numpy()


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
    listed, predictor = list_texts(texts), Predictor(Path(folder), precision="fp32", device="cpu")
    return [_map_text(predictor, text) for text in listed]


def _map_text(predictor: Predictor, text: str) -> TextAttention:
    """Return the maps of one text, which is a batch of its own, so that there is no padding."""
    saved = predictor.saved
    maps = AttentionMaps()
    if isinstance(saved.model, NeuralClassifier) and saved.model.encoder.config.keeps_tokens:
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
