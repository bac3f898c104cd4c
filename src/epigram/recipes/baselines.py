"""Baselines from the papers' tables that are trained from scratch, and the random baseline."""

from __future__ import annotations

from epigram.models.recipe import Preset, Recipe

TRAIN = {"learning_rate": 1e-3, "batch_size": 32, "epochs": 10, "patience": 3}

RECIPES = [
    Recipe(
        name="random",
        about="random labels drawn by class frequency",
        paper="-",
        view="token",
        model={"kind": "random_baseline"},
    ),
    Recipe(
        name="fast_text",
        about="mean of word vectors and hashed 2- and 3-gram vectors",
        paper="Joulin et al. (2017)",
        view="token",
        encoder={"kind": "fast_text"},
        head={"kind": "linear", "pool": "mean"},
        train={
            **{"optimizer": "row_adagrad", "learning_rate": 0.12, "clip": None, "precision": "fp32"},
            **{"batch_size": 512, "max_tokens": 65_536, "epochs": 2, "min_steps": 450, "patience": 1},
        },
    ),
    Recipe(
        name="dpcnn",
        about="pyramid of convolutions, each level with half the positions of the one before",
        paper="Johnson & Zhang (2017)",
        view="token",
        encoder={"kind": "dpcnn"},
        head={"kind": "linear", "pool": "max", "dropout": 0.5},
        train=TRAIN,
    ),
    Recipe(
        name="vdcnn",
        about="nine convolutions with batch normalization and k-max pooling",
        paper="Conneau et al. (2017)",
        view="token",
        encoder={"kind": "vdcnn"},
        head={"kind": "linear", "pool": "first"},
        train=TRAIN,
    ),
    Recipe(
        name="att_blstm",
        about="bidirectional LSTM (2 × 128) with attention pooling",
        paper="Zhou et al. (2016)",
        view="token",
        encoder={"kind": "bilstm", "width": 128},
        head={"kind": "linear", "pool": "attention", "dropout": 0.5},
        train={**TRAIN, "learning_rate": 2e-3},
    ),
    Recipe(
        name="universal_transformer",
        about="one Transformer block, repeated with adaptive computation time",
        paper="Dehghani et al. (2019)",
        view="token",
        encoder={"kind": "universal_transformer", "width": 128, "depth": 6, "heads": 4, "hidden": 256},
        train={**TRAIN, "learning_rate": 5e-4, "patience": 4},
    ),
]

PRESETS = {
    "fast_text": Preset(encoder={"orders": [2, 3]}),
    "dpcnn": Preset(encoder={"filters": 250, "levels": 7}),
    "att_blstm": Preset(encoder={"width": 128}),
}
