"""Linear layer on the encodings of a frozen pretrained encoder, alone and beside TF-IDF."""

from __future__ import annotations

from epigram.models.recipe import Recipe

LAYERS = 4  # the last layers; the last one alone has lost part of what tells sentiment (docs/development/log.md)

RECIPES = [
    Recipe(
        name="embedding_linear",
        about="logistic regression on the mean states of a frozen pretrained encoder: seconds, for few texts",
        paper="Reimers and Gurevych (2019)",
        view="wordpiece",
        model={"kind": "frozen_classifier"},
        encoder={"kind": "pretrained"},
        head={"kind": "linear", "pool": "mean", "layers": LAYERS},
    ),
    Recipe(
        name="hybrid_linear",
        about="linear SVM on the mean states of a frozen pretrained encoder and on TF-IDF of token n-grams",
        paper="Joachims (1998); Reimers and Gurevych (2019)",
        view="wordpiece",
        model={"kind": "frozen_classifier"},
        encoder={"kind": "pretrained"},
        head={"kind": "linear_ngrams", "pool": "mean", "layers": LAYERS},
    ),
]
