"""Tests of combined parts: part-of-speech weights, head-to-head attention, prompt, hook fusion and depth control."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from epigram.nn.layers.hook_fusion import hook_weights
from tests.support import families
from tests.support.families import DEPTH, FAMILIES, PREFIX, VOCABULARY

PLACEMENTS = ["after", "inside", "log"]
TEXTS = families.texts(prefix=PREFIX)
ALL = {"head_to_head": "residual", "pos_weight": "after"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {family: families.checkpoint(family, root / family) for family in FAMILIES}


def model_of(folder: Path, weights: Tensor, head: dict[str, Any] | None = None, **encoder: Any) -> Any:
    """Return a model on a checkpoint with the token weights `weights` (V,)."""
    torch.manual_seed(1)
    context = families.context(checkpoint=str(folder), prefix_ids=PREFIX, pos_weight=weights)
    return families.recipe_of(head, **encoder).build(context).eval()


def uneven() -> Tensor:
    return torch.where(torch.arange(VOCABULARY) % 3 == 0, 0.5, 1.0)


def spelled(weight: Tensor, placement: str) -> Any:
    """Return an attention function for transformers: Transformer-F, Eq. 5, with the full matrix; `weight` (B, L)."""

    def attend(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scaling: float, **_: Any) -> Any:
        w = weight[:, None, None, :]
        scores = q @ k.transpose(2, 3) * scaling
        scores = scores * w if placement == "inside" else scores + w.log() if placement == "log" else scores
        shares = (scores if mask is None else scores + mask).softmax(-1)
        return ((shares * w if placement == "after" else shares) @ v).transpose(1, 2).contiguous(), None

    return attend


@torch.no_grad()
def reference(folder: Path, weight: Tensor, placement: str) -> Tensor:
    from transformers import AttentionInterface, AttentionMaskInterface, AutoModel
    from transformers.masking_utils import eager_mask

    AttentionInterface.register("spelled", spelled(weight, placement))
    AttentionMaskInterface.register("spelled", eager_mask)
    model = AutoModel.from_pretrained(folder, attn_implementation="spelled").eval()
    out: Tensor = model(input_ids=TEXTS.ids, attention_mask=TEXTS.valid.long()).last_hidden_state
    return out[TEXTS.valid]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_eq5_in_every_layer_of_a_pretrained_encoder(family: str, placement: str, folders: dict[str, Path]) -> None:
    encoder = model_of(folders[family], uneven(), pos_weight=placement).encoder
    wanted = reference(folders[family], uneven()[TEXTS.ids], placement)
    torch.testing.assert_close(encoder(TEXTS).last[TEXTS.valid], wanted, atol=1e-5, rtol=1e-5)
    looked_at = encoder.backbone(
        input_ids=TEXTS.ids, attention_mask=TEXTS.valid.long(), token_weight=uneven()[TEXTS.ids], output_attentions=True
    )
    torch.testing.assert_close(looked_at.last_hidden_state[TEXTS.valid], wanted, atol=1e-5, rtol=1e-5)
    plain = model_of(folders[family], uneven()).encoder(TEXTS).last[TEXTS.valid]
    assert (plain - wanted).abs().max() > 1e-3


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_neutral_weights_and_gate_leave_a_checkpoint_as_it_was(
    family: str, placement: str, folders: dict[str, Path]
) -> None:
    ones = torch.ones(VOCABULARY)
    plain = model_of(folders[family], ones).encoder(TEXTS).last[TEXTS.valid]
    both = model_of(folders[family], ones, pos_weight=placement, head_to_head="residual").encoder
    torch.testing.assert_close(both(TEXTS).last[TEXTS.valid], plain, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_hook_weights_follow_the_depth(folders: dict[str, Path]) -> None:
    model = model_of(folders["bert"], uneven(), {"kind": "linear", "pool": "first", "fusion": "hook"}, **ALL)
    for depth in (DEPTH, DEPTH - 1):
        states = model.encoder(TEXTS).states[1:]
        assert len(states) == depth
        fused = sum(w * x for w, x in zip(hook_weights(depth).tolist(), states, strict=True))
        torch.testing.assert_close(model(TEXTS).logits, model.head.out(fused[:, 0]), atol=1e-5, rtol=1e-5)
        model.drop(1)
