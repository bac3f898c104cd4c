"""TF-IDF over token n-grams and a linear SVM."""

from __future__ import annotations

from epigram.models.recipe import Recipe

RECIPES = [
    Recipe(
        name="tfidf_svm",
        about="linear SVM on TF-IDF of token n-grams: a small and strong baseline",
        paper="Joachims (1998)",
        view="token",
        model={"kind": "linear_svm"},
        train={"max_length": 512},
    ),
]
