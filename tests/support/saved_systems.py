"""Saved models of small systems with random weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from epigram.models.classifier import NeuralClassifier
from epigram.models.linear_svm import LinearSvm
from epigram.models.recipe import Recipe
from epigram.models.serialization import save
from epigram.text.tokens.tokenizers import SPECIALS, word_tokenizer
from epigram.training.fitters.linear_svm import fit
from tests.support.small_systems import LABELS, VOCABULARY, build, frame_of, recipe_of, texts_of


def saved(name: str, folder: Path, *, recipe: Recipe | None = None, multi: bool = False, **frame: Any) -> Path:
    """Save a model with random weights whose vocabulary is w5, w6, …; `frame` are changes of its text template."""
    recipe = recipe or recipe_of(name)
    model = build(recipe, multi=multi)
    if isinstance(model, LinearSvm):
        fit(model, texts_of(recipe, 90), texts_of(recipe, seed=1), seed=0)
    with torch.no_grad():
        for weight in model.parameters():  # no weight is zero, so that predictions differ
            weight.add_(0.1 * torch.randn_like(weight))
    if isinstance(model, NeuralClassifier):
        model.temperature.fill_(2.5)  # every interface has to apply it
    tokenizer = folder / "tokenizer.json"
    word_tokenizer([*SPECIALS, *(f"w{i}" for i in range(len(SPECIALS), VOCABULARY))]).save(str(tokenizer))
    save(
        folder / "model", model, recipe=recipe, frame=replace(frame_of(recipe), **frame), labels=LABELS,
        tokenizer=tokenizer, facts={"seed": 0}, thresholds=[0.3, 0.5, 0.6] if multi else None,
    )  # fmt: skip
    return folder / "model"
