"""Linear layer on an encoder that was fine-tuned on pairs of texts."""

from __future__ import annotations

from epigram.models.recipe import Recipe

RECIPES = [
    Recipe(
        name="setfit",
        about="logistic regression on a pretrained encoder fine-tuned on pairs of texts: minutes, for few texts",
        paper="Tunstall et al. (2022)",
        view="wordpiece",
        model={"kind": "contrastive_classifier"},
        encoder={"kind": "pretrained"},
        head={"kind": "linear", "pool": "mean"},
        train={"epochs": 1, "min_steps": 40, "batch_size": 16, "learning_rate": 5e-4, "warmup": 0.1},
        checkpoint_train={"learning_rate": 1e-4},
    ),
]
