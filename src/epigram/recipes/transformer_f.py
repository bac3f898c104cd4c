"""Transformer-F: correlation attention, part-of-speech weight and hook fusion, and its ablations."""

from __future__ import annotations

from typing import Any

from epigram.models.recipe import Preset, Recipe

PAPER = "Transformer-F (2021)"
# The paper's width of 512 needs 16 times the work per attention. These sizes are for two CPU cores.
PLAIN = {"kind": "transformer", "width": 128, "depth": 6, "heads": 1, "hidden": 256}
TRAIN = {"learning_rate": 5e-4, "batch_size": 32, "epochs": 10, "patience": 4}
CORRELATION: dict[str, Any] = {"attention": "correlation"}
POS: dict[str, Any] = {"pos_weight": "after"}
HOOK: dict[str, Any] = {"kind": "linear", "fusion": "hook"}


def _row(name: str, about: str, encoder: dict[str, Any], head: dict[str, Any]) -> Recipe:
    return Recipe(
        name=name, about=about, paper=PAPER, view="token", encoder={**PLAIN, **encoder}, head=head, train=TRAIN
    )


RECIPES = [
    _row("transformer", "Transformer from scratch", {}, {"kind": "linear"}),
    _row("transformer_pos", "Transformer with part-of-speech weights (+W_POS)", POS, {"kind": "linear"}),
    _row("transformer_cor", "Transformer with correlation attention (+ATT_COR)", CORRELATION, {"kind": "linear"}),
    _row("transformer_hook", "Transformer with hook fusion of the layers (+Hook)", {}, HOOK),
    _row(
        "transformer_f",
        "Transformer with correlation attention, part-of-speech weights and hook fusion",
        {**CORRELATION, **POS},
        HOOK,
    ),
]

SIZES: dict[str, Any] = {"width": 512, "depth": 6, "heads": 1}
# The paper names the Transformer of Vaswani et al. (2017) and nothing else about its perceptrons and embeddings.
VASWANI = {"hidden": 2048, "activation": "relu", "positions": "sinusoidal", "embedding_norm": False}
PAPER_CORRELATION = {"row_norm": True, "temperature": 1.0}
PAPER_HOOK = {"hook_a": 0.4, "hook_b": 2.9}
PRESETS = {
    recipe.name: Preset(
        encoder={**SIZES, **VASWANI, **(PAPER_CORRELATION if "attention" in recipe.encoder else {})},
        head=PAPER_HOOK if recipe.head is HOOK else {},
        train={"optimizer": "adam", "learning_rate": 5e-4, "weight_decay": 0.0},
    )
    for recipe in RECIPES
}
