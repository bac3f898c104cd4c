"""CNLE: co-attention between a text and the label set, and a decoder that predicts the labels."""

from __future__ import annotations

from epigram.models.recipe import Preset, Recipe

RECIPES = [
    Recipe(
        name="cnle",
        about="co-attention of text and labels with a label decoder",
        paper="CNLE (2022)",
        view="token",
        encoder={"kind": "projected_bilstm"},
        head={"kind": "label_decoder"},
        train={
            "optimizer": "adam",
            "beta2": 0.98,
            "epsilon": 1e-9,
            "weight_decay": 0.0,
            "learning_rate": 2.2e-3,  # 1 / √(256 · 800), the peak learning rate of Vaswani et al. (2017)
            "schedule": "inverse_sqrt",
            "warmup": 0.2,
            "warmup_steps": 800,
            "batch_size": 32,
            "epochs": 15,
            "patience": 4,
        },
    )
]

PRESETS = {
    "cnle": Preset(
        encoder={"embedding": 300, "width": 256, "dropout": 0.2, "state_dropout": 0.4},
        head={"embedding": 300, "heads": 4, "hidden": 150, "dropout": 0.2},
        train={
            "optimizer": "adam",
            "beta2": 0.98,
            "epsilon": 1e-9,
            "weight_decay": 0.0,
            "schedule": "inverse_sqrt",
            "warmup": 1.0,  # 800 steps, however long the training is
            "warmup_steps": 800,
            "clip": 1.0,
        },
    )
}
