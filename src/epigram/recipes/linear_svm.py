"""TF-IDF over token n-grams and a linear SVM."""

from __future__ import annotations

from epigram.models.recipe import Recipe

RECIPES = [
    Recipe(
        name="tfidf_svm",
        about="TF-IDF over token n-grams and a linear SVM: strong, tiny, and the score to beat",
        paper="Joachims (1998)",
        view="token",
        encoder={"kind": "linear_svm"},
        train={"max_length": 512},
    ),
]
