"""Head-to-head attention, alone and with prompt text augmentation, which is the paper's own method."""

from __future__ import annotations

from typing import Any

from epigram.models.recipe import Preset, Recipe
from epigram.recipes import bert, transformer_f

PAPER = "Head-to-head attention + PTA (2024)"
FIRST: dict[str, Any] = {"kind": "linear", "pool": "first", "dropout": 0.1}
PROMPT: dict[str, Any] = {"kind": "prompt"}


def _on_bert(name: str, about: str, gate: str, head: dict[str, Any]) -> Recipe:
    return Recipe(
        name=name,
        about=about,
        paper=PAPER,
        view="wordpiece_prompt" if head is PROMPT else "wordpiece",
        encoder={"kind": "pretrained", "head_to_head": gate},
        head=head,
        train=bert.TRAIN,
        checkpoint_train=bert.CHECKPOINT_TRAIN,
    )


RECIPES = [
    Recipe(
        name="transformer_hth",
        about="Transformer from scratch with head-to-head attention",
        paper=PAPER,
        view="token",
        encoder={**transformer_f.PLAIN, "heads": 4, "head_to_head": "paper"},
        train=transformer_f.TRAIN,
    ),
    _on_bert("bert_hth", "pretrained encoder with head-to-head attention (residual gate)", "residual", FIRST),
    _on_bert("bert_hth_paper", "pretrained encoder with head-to-head attention (the paper's gate)", "paper", FIRST),
    _on_bert("bert_hth_pta", "head-to-head attention (residual gate) with a prompt", "residual", PROMPT),
    _on_bert(
        "bert_hth_pta_paper",
        "head-to-head attention (the paper's gate) with a prompt: the paper's method",
        "paper",
        PROMPT,
    ),
]

# The paper has no encoder from scratch, so transformer_hth has no preset.
PRESETS = {
    recipe.name: Preset(
        encoder={"head_to_head": "paper", "site": "scores"},
        head={"gamma": 0.5} if recipe.head is PROMPT else {},
        train=bert.PAPER_TRAIN,
        checkpoint=True,
    )
    for recipe in RECIPES
    if recipe.encoder["kind"] == "pretrained"
}
