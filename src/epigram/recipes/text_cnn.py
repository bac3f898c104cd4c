"""TextCNN: convolutions of three sizes with max pooling over time (Kim, 2014)."""

from __future__ import annotations

from epigram.models.recipe import Preset, Recipe

RECIPES = [
    Recipe(
        name="textcnn",
        about="convolutions over 2, 3 and 4 tokens with max pooling",
        paper="Kim (2014)",
        view="token",
        encoder={"kind": "convolution"},
        head={"kind": "linear", "pool": "max", "dropout": 0.5},
        train={"learning_rate": 1e-3, "batch_size": 32, "epochs": 10, "patience": 3},
    )
]

PRESETS = {"textcnn": Preset(encoder={"filters": 256, "sizes": [2, 3, 4]})}
