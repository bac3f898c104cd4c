"""TF-IDF over token n-grams and a linear SVM."""

from __future__ import annotations

from epigram.models.linear_svm import AUTO, SvmSettings
from epigram.models.recipe import Recipe

RECIPES = [
    Recipe(
        name="tfidf_svm",
        about="linear SVM on TF-IDF of token n-grams: a small and strong baseline",
        paper="Joachims (1998), Wang and Manning (2012)",
        view="token",
        model={"kind": "linear_svm", **dict.fromkeys(SvmSettings._fields, AUTO)},
        train={"max_length": 512},
    ),
]
