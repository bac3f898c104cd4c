"""Baselines from the papers' tables that are trained from scratch, and the random baseline."""

from __future__ import annotations

from epigram.models.recipe import Recipe

TRAIN = {"learning_rate": 1e-3, "batch_size": 32, "epochs": 10, "patience": 3}

RECIPES = [
    Recipe(
        name="random",
        about="a draw by the classes' frequencies: what any system has to beat",
        paper="-",
        view="token",
        encoder={"kind": "random_baseline"},
    ),
    Recipe(
        name="fast_text",
        about="vectors of words and of hashed 2- and 3-grams, averaged",
        paper="Joulin et al. (2017)",
        view="token",
        encoder={"kind": "fast_text"},
        head={"kind": "linear", "pool": "mean"},
        train={**TRAIN, "learning_rate": 1e-2, "batch_size": 256},
    ),
    Recipe(
        name="dpcnn",
        about="250 filters over a pyramid: each level has half the positions",
        paper="Johnson & Zhang (2017)",
        view="token",
        encoder={"kind": "dpcnn"},
        head={"kind": "linear", "pool": "max", "dropout": 0.5},
        train=TRAIN,
    ),
    Recipe(
        name="vdcnn",
        about="nine convolutions with batch normalization, then the k largest values",
        paper="Conneau et al. (2017)",
        view="token",
        encoder={"kind": "vdcnn"},
        head={"kind": "linear", "pool": "first"},
        train=TRAIN,
    ),
    Recipe(
        name="att_blstm",
        about="a bidirectional LSTM of 2 × 128 under attention pooling",
        paper="Zhou et al. (2016)",
        view="token",
        encoder={"kind": "bilstm", "width": 128},
        head={"kind": "linear", "pool": "attention", "dropout": 0.5},
        train={**TRAIN, "learning_rate": 2e-3},
    ),
    Recipe(
        name="universal_transformer",
        about="one Transformer block, repeated until each token has had enough",
        paper="Dehghani et al. (2019)",
        view="token",
        encoder={"kind": "universal_transformer", "width": 128, "depth": 6, "heads": 4, "hidden": 256},
        train={**TRAIN, "learning_rate": 5e-4, "patience": 4},
    ),
]
