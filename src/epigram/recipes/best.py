"""BiLSTM of two layers with hook fusion and attention pooling.

It is among the best combinations that are trained from scratch (docs/development/log.md).
"""

from __future__ import annotations

from epigram.models.recipe import Recipe

RECIPES = [
    Recipe(
        name="best",
        about="two bidirectional LSTM layers with hook fusion and attention pooling",
        paper="a combination: Zhou et al. (2016), Transformer-F (2021)",
        view="token",
        encoder={"kind": "bilstm", "width": 128, "depth": 2},
        head={"kind": "linear", "pool": "attention", "fusion": "hook", "dropout": 0.5},
        train={"learning_rate": 2e-3, "batch_size": 32, "epochs": 10, "patience": 3},
    )
]
