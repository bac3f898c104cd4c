"""BERT fine-tuned, plain and with prompt text augmentation; from scratch and small where there is no checkpoint."""

from __future__ import annotations

from pithy.systems.recipe import Recipe

ENCODER = {"kind": "pretrained"}
TRAIN = {
    "epochs": 8,
    "patience": 3,
    "batch_size": 32,
    "learning_rate": 5e-4,
    "checkpoint_learning_rate": 5e-5,
    "warmup": 0.1,
}

RECIPES = [
    Recipe(
        name="bert",
        about="a pretrained encoder, first token into a linear layer",
        paper="Devlin et al. (2019)",
        view="wordpiece",
        encoder=ENCODER,
        head={"kind": "linear", "pool": "first", "dropout": 0.1},
        train=TRAIN,
    ),
    Recipe(
        name="bert_pta",
        about="a pretrained encoder read at the two masks of a prompt",
        paper="HTH attention with PTA (2022)",
        view="wordpiece_prompt",
        encoder=ENCODER,
        head={"kind": "prompt"},
        train=TRAIN,
    ),
]
