"""LEAM and EXAM: classifiers that compare the words of a text with label embeddings."""

from __future__ import annotations

from epigram.models.recipe import Recipe

TRAIN = {"learning_rate": 1e-3, "batch_size": 32, "epochs": 15, "patience": 4}

RECIPES = [
    Recipe(
        name="leam",
        about="token vectors weighted by their similarity to label embeddings",
        paper="Wang et al. (2018)",
        view="token",
        encoder={"kind": "embedding"},
        head={"kind": "label_attention"},
        train=TRAIN,
    ),
    Recipe(
        name="exam",
        about="matching scores of every word and class, with a perceptron over the positions",
        paper="Du et al. (2019)",
        view="token",
        encoder={"kind": "region"},
        head={"kind": "interaction"},
        train=TRAIN,
    ),
]
