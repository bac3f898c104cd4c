"""From an encoded view to batches and to what a model must fit."""

from __future__ import annotations

import torch

from pithy.layers.types import Context
from pithy.systems.saved import TextFrame
from pithy.text.view import View
from pithy.training.batches import TextBatches


def frame_of(view: View, max_length: int) -> TextFrame:
    """What stands around the texts of a view, for a model that reads `max_length` tokens."""
    return TextFrame(
        language=view.language,
        max_length=max_length,
        prefix_ids=view.prefix_ids,
        suffix_ids=view.suffix_ids,
        pad_id=view.pad_id,
        unk_id=view.unk_id,
        mask_id=view.mask_id,
        vocabulary=view.vocabulary,
    )


def context_of(view: View, max_length: int) -> Context:
    """Sizes, special tokens and weights that the view fixes for every model on it."""
    return Context(
        vocabulary=view.vocabulary,
        classes=len(view.labels),
        max_length=max_length,
        mask_id=view.mask_id,
        pos_weight=torch.tensor(view.pos_weight()),
        checkpoint=view.checkpoint,
    )


def batches_of(view: View, split: str, frame: TextFrame, device: torch.device | str = "cpu") -> TextBatches:
    """One split of a view on `device`."""
    part = view.split(split)
    return TextBatches(
        part.ids,
        part.offsets,
        prefix=frame.prefix_ids,
        suffix=frame.suffix_ids,
        max_length=frame.max_length,
        pad_id=frame.pad_id,
        unk_id=frame.unk_id,
        labels=part.labels,
        device=device,
    )


def device_of() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
