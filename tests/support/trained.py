"""Training of one model, without the checks and the resume state of a system."""

from __future__ import annotations

from pathlib import Path

from epigram.models.recipe import Recipe
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import TrainingConfig
from epigram.training.train_model import train_model
from epigram.training.write_model import Origin


def train_seed(
    name: str, recipe: Recipe, config: TrainingConfig, view: View, pretrained: Path | None, seed: int, out: Path
) -> None:
    """Train the model of one seed and write its folder."""
    train_model(name, Origin(recipe=recipe, config=config, view=view, pretrained=pretrained, seed=seed), out)
