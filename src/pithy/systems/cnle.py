"""CNLE: a text and the label set attend to each other, and a decoder names the labels."""

from __future__ import annotations

from pithy.systems.recipe import Recipe

RECIPES = [
    Recipe(
        name="cnle",
        about="co-attention of text and labels, and a label decoder",
        paper="CNLE (2022)",
        view="token",
        encoder={"kind": "projected_bilstm"},
        head={"kind": "label_decoder"},
        train={
            "optimizer": "adam",
            "beta2": 0.98,
            "epsilon": 1e-9,
            "weight_decay": 0.0,
            "learning_rate": 2.2e-3,  # 1 / √(256 · 800), the peak of the warm-up of Vaswani et al. (2017)
            "schedule": "inverse_sqrt",
            "warmup": 0.2,
            "warmup_steps": 800,
            "batch_size": 32,
            "epochs": 15,
            "patience": 4,
        },
    )
]
