"""Linear layer on the encodings of a frozen pretrained encoder."""

from __future__ import annotations

from epigram.models.recipe import Recipe

RECIPES = [
    Recipe(
        name="embedding_linear",
        about="logistic regression on the mean state of a frozen pretrained encoder: seconds, for few texts",
        paper="Reimers and Gurevych (2019)",
        view="wordpiece",
        model={"kind": "frozen_classifier"},
        encoder={"kind": "pretrained"},
        head={"kind": "linear", "pool": "mean"},
    ),
]
