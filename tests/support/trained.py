"""Setup and training of one model, without the checks and the resume state of a system."""

from __future__ import annotations

from pathlib import Path

from epigram.evaluation.metrics.primary import text_metric
from epigram.models.recipe import Recipe
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import TrainingConfig
from epigram.training.system_setup import ModelSetup
from epigram.training.train_model import train_model


def setup_of(
    recipe: Recipe,
    config: TrainingConfig,
    view: View,
    *,
    name: str = "mine",
    seed: int = 0,
    pretrained: Path | None = None,
) -> ModelSetup:
    """Return the setup of one training."""
    return ModelSetup(
        name=name,
        recipe=recipe,
        config=config,
        view=view,
        metric=text_metric("auto", view),
        pretrained=pretrained,
        seed=seed,
    )


def train_seed(
    name: str, recipe: Recipe, config: TrainingConfig, view: View, pretrained: Path | None, seed: int, out: Path
) -> None:
    """Train the model of one seed and write its folder."""
    train_model(setup_of(recipe, config, view, name=name, seed=seed, pretrained=pretrained), out)
