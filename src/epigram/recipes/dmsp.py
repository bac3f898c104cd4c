"""Multi-layer semantic perceptron family: MLP, SMSP, SMSP-E, DC and DMSP."""

from __future__ import annotations

from typing import Any

from epigram.models.recipe import Preset, Recipe

PAPER = "DMSP/DDCF (2024)"
TRAIN = {"learning_rate": 1e-3, "batch_size": 32, "epochs": 12, "patience": 4}


def _row(name: str, about: str, order: str, mode: str, depth: int) -> Recipe:
    return Recipe(
        name=name,
        about=about,
        paper=PAPER,
        view="token",
        encoder={"kind": "semantic_perceptron", "order": order, "depth": depth},
        head={"kind": "layer_ensemble", "mode": mode},
        train=TRAIN,
    )


RECIPES = [
    _row("mlp", "perceptron layers with a classifier on the last layer", "none", "last", 2),
    _row("smsp", "semantic perceptrons with a classifier on the last layer", "random", "last", 5),
    _row("smsp_e", "semantic perceptrons with an ensemble of one classifier per layer", "random", "ensemble", 3),
    _row("dc", "perceptron layers with dynamic depth control", "none", "control", 5),
    _row("dmsp", "semantic perceptrons with dynamic depth control", "random", "control", 5),
]


# What rows of Table 4 have beside the sizes that they share: encoder and head.
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mlp": ({"hidden": 1024}, {}),
    "smsp": ({}, {"mode": "deep"}),
}


def _preset(recipe: Recipe) -> Preset:
    """Return the sizes of rows of the paper's Table 4: MLP 4, SMSP 10, SMSP-E 3, and DC and DMSP of five layers.

    MLP's hidden layers are twice as wide. A single classifier on the last layer learns with one on each other layer.
    """
    mode, (encoder, head) = recipe.head["mode"], ROWS.get(recipe.name, ({}, {}))
    ensemble = {} if mode == "last" else {"loss": "all"}
    control = {"rule": "equation", "drop": "last"} if mode == "control" else {}
    return Preset(
        encoder={"width": 64, "hidden": 512, "depth": recipe.encoder["depth"], **encoder},
        head={"hidden": 128, **ensemble, **control, **head},
        train={"optimizer": "adam", "weight_decay": 0.0, "max_length": 100},
    )


PRESETS = {recipe.name: _preset(recipe) for recipe in RECIPES}
