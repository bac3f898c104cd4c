"""Encoder1-Encoder2 (Niu et al., 2019), a baseline of CNLE: local features that know the whole text."""

from __future__ import annotations

from epigram.models.recipe import Preset, Recipe

RECIPES = [
    Recipe(
        name="encoder1_encoder2",
        about="convolutions whose windows attend to the whole text, with max pooling",
        paper="Niu et al. (2019)",
        view="token",
        encoder={"kind": "global_local"},
        head={"kind": "linear", "pool": "max", "dropout": 0.5},
        train={"learning_rate": 1e-3, "batch_size": 32, "epochs": 10, "patience": 3},
    )
]

PRESETS = {  # the settings for AG News in the authors' code, github.com/cdbgogo/Encoder1-Encoder2
    "encoder1_encoder2": Preset(
        encoder={"filters": 128, "sizes": [3, 5, 7], "mode": "attend", "dropout": 0.2},
        head={"dropout": 0.2},
        train={
            "optimizer": "adadelta",
            "learning_rate": 1.0,
            "epsilon": 1e-6,
            "weight_decay": 0.0,
            "schedule": "constant",
            "warmup": 0.0,
            "clip": None,
            "batch_size": 128,
            "max_length": 128,
            "epochs": 100,
            "evaluation_steps": 500,
            "patience": 10,
        },
    )
}
