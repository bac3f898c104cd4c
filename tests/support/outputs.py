"""Outputs of a model for a batch, and batches with more padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from epigram.nn.layers.types import Tokens
from tests.support.small_systems import MAX_LENGTH


def logits(model: Any, tokens: Tokens, length: int = MAX_LENGTH) -> np.ndarray:
    """Return the logits (B, C), followed by the logits of the first `length` tokens if the model labels tokens."""
    model.eval()
    with torch.inference_mode():
        said = model(tokens)
    if said.tokens is None:
        return said.logits.numpy()
    own = torch.where(tokens.valid.unsqueeze(-1), said.tokens, 0.0)[:, :length]
    room = torch.nn.functional.pad(own, (0, 0, 0, length - own.shape[1]))
    return torch.cat([said.logits, room.flatten(1)], 1).numpy()


def padded(tokens: Tokens, extra: int) -> Tokens:
    """Return `tokens` with `extra` padding positions at the end."""
    pad = torch.nn.functional.pad
    return Tokens(
        pad(tokens.ids, (0, extra), value=0),
        pad(tokens.valid, (0, extra)),
        characters=None if tokens.characters is None else pad(tokens.characters, (0, 0, 0, extra)),
    )
