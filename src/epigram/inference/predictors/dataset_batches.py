"""Batches of an encoded view, and the data spec and text template of its models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.core.pairs import PAIR
from epigram.models.batches import UNLABELLED, TextBatches
from epigram.models.text_template import TextTemplate, character_count
from epigram.nn.layers.attention.pos_weighting import reads_pos_weight
from epigram.nn.layers.types import DataSpec
from epigram.text.dataset.encoded_dataset import View
from epigram.text.dataset.pos_words import PosWords, WordWeights


def effective_length(view: View, max_length: int) -> int:
    """Return `max_length`, or the length of the view's longest text with prompt and special tokens if that is less.

    Raises ParameterError if prompt and special tokens leave no room for a text.
    """
    special = len(view.prefix_ids) + len(view.suffix_ids)
    if max_length <= special:
        raise ParameterError(
            f"params.yaml: train.max_length is {max_length}, but prompt and special tokens of view {view.view} take "
            f"{special}; increase it here or for the system"
        )
    return min(max_length, view.max_length + special)


def template_of(view: View, max_length: int, model: nn.Module | None = None) -> TextTemplate:
    """Return the input format of a view for a model that reads at most `max_length` tokens.

    If `model` applies part-of-speech weights, the format has the weights of words.
    """
    return TextTemplate(
        language=view.language,
        max_length=effective_length(view, max_length),
        prefix_ids=view.prefix_ids,
        suffix_ids=view.suffix_ids,
        pad_id=view.pad_id,
        unk_id=view.unk_id,
        mask_id=view.mask_id,
        vocabulary=view.vocabulary,
        characters=view.characters,
        token_labels=view.token_labels,
        text_columns=view.text_columns,
        join=view.join,
        plain_class=_plain_class(view),
        pos_words=view.pos_words if model is not None and reads_pos_weight(model) else None,
    )


def data_spec_of(view: View, max_length: int, pretrained: Path | None = None) -> DataSpec:
    """Return what the view determines for every model on it; `mask_id` is set only if the view has a prompt.

    `pretrained` is the folder of an encoder that was pretrained on the view.
    """
    prompted = view.mask_id in {*view.prefix_ids, *view.suffix_ids}
    return DataSpec(
        vocabulary=view.vocabulary,
        classes=len(view.labels),
        labels=tuple(view.labels),
        multi=view.task == "multi",
        max_length=effective_length(view, max_length),
        unk_id=view.unk_id,
        mask_id=view.mask_id if prompted else None,
        prefix_ids=tuple(view.prefix_ids),
        suffix_ids=tuple(view.suffix_ids),
        pairs=view.join == PAIR,
        pos_weight=torch.tensor(view.pos_weight()),
        label_shares=_label_shares(view),
        token_labels=tuple(view.token_labels),
        plain_class=_plain_class(view),
        characters=character_count(view.characters),
        vectors=None if view.vectors is None else torch.tensor(view.vectors_array()),
        checkpoint=view.checkpoint,
        pretrained=pretrained,
    )


def _label_shares(view: View) -> torch.Tensor | None:
    """Return the share of the training texts with each label (C,), if a text may have several."""
    return torch.from_numpy(view.split("train").labels.mean(0)) if view.task == "multi" else None


def _plain_class(view: View) -> int:
    """Return the class whose training texts have the smallest share of tokens with a label other than the default."""
    part = view.split("train")
    if part.token_labels is None or view.task == "multi":
        return 0
    of = part.ids.spread(np.asarray(part.labels))
    marked, tokens = (np.bincount(of[part.token_labels >= least], minlength=len(view.labels)) for least in (1, 0))
    # a class without labelled tokens in train is chosen only if there is no other
    return int(np.where(tokens > 0, marked / np.maximum(tokens, 1), np.inf).argmin())


def batches_of(
    view: View,
    split: str,
    frame: TextTemplate,
    device: torch.device | str = "cpu",
    *,
    token_supervision: tuple[float, int] = (1.0, 0),
    label_names: bool = False,
) -> TextBatches:
    """Return one split of a view on `device`, with the `label_names` if the view has them.

    `token_supervision` is the share of its texts that keep their token labels, and a seed.
    """
    part = view.split(split)
    return TextBatches.from_template(
        frame,
        part.ids,
        labels=part.labels,
        token_labels=None
        if part.token_labels is None
        else _keep_token_labels(part.ids.with_values(part.token_labels), *token_supervision),
        characters=part.characters,
        word_weight=_word_weight(view, frame, part.ids),
        label_names=_label_names(view, frame, device) if label_names else None,
        device=device,
    )


def _label_names(view: View, frame: TextTemplate, device: torch.device | str) -> TextBatches | None:
    """Return the names of the labels as texts; None if they are not words or tokens have characters."""
    if not view.label_tokens or view.characters:
        return None
    return TextBatches.from_template(frame, Ragged.from_lists(view.label_tokens, np.int64), device=device)


def taught_batches(
    view: View, frame: TextTemplate, labels: NDArray[np.float32], device: torch.device | str = "cpu"
) -> TextBatches:
    """Return the N training texts and the M texts without labels of a view, with probabilities `labels` (N + M, C)."""
    parts = [view.split("train"), view.unlabelled_split()]
    ids = Ragged.concatenate([part.ids for part in parts])
    spelled = [part.characters for part in parts if part.characters is not None]
    return TextBatches.from_template(
        frame,
        ids,
        labels=labels,
        characters=Ragged.concatenate(spelled) if spelled else None,
        word_weight=_word_weight(view, frame, ids),
        device=device,
    )


def _word_weight(view: View, frame: TextTemplate, ids: Ragged[np.int32]) -> NDArray[np.float32] | None:
    """Return the weights of the words that contain the tokens `ids`, (T,), if the model reads them."""
    if frame.pos_words is None:
        return None
    words = PosWords.parse(frame.pos_words, f"the model of view {view.view}")
    return WordWeights(words, view.entries()).find(ids, frame.room)


def _keep_token_labels(token_labels: Ragged[np.int16], share: float, seed: int) -> NDArray[np.int16]:
    """Return `token_labels` (T,), kept for a random `share` of the texts and removed for the rest."""
    count = len(token_labels)
    kept = np.random.default_rng(seed).permutation(count) < round(share * count)
    return np.where(token_labels.spread(kept), token_labels.values, np.int16(UNLABELLED))


def count_truncated(view: View, frame: TextTemplate, split: str) -> int:
    """Return the number of texts of a split that are longer than the model reads."""
    return int((view.split(split).ids.lengths > frame.room).sum())
