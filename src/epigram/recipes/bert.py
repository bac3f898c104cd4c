"""Fine-tuned pretrained encoders, plain and with prompt text augmentation.

A view without a checkpoint gets a small encoder instead.
"""

from __future__ import annotations

from typing import Any

from epigram.models.recipe import Preset, Recipe

ENCODER = {"kind": "pretrained"}
TRAIN = {"epochs": 8, "patience": 3, "batch_size": 32, "learning_rate": 5e-4, "warmup": 0.1}
CHECKPOINT_TRAIN = {"learning_rate": 5e-5}
# settings of the HTH + PTA paper
PAPER_TRAIN = {"optimizer": "adamw", "learning_rate": 2e-5, "batch_size": 64, "clip": 10.0, "patience_steps": 1000}
FIRST: dict[str, Any] = {"kind": "linear", "pool": "first", "dropout": 0.1}
MEAN: dict[str, Any] = {"kind": "linear", "pool": "mean", "dropout": 0.1}


def _family(name: str, about: str, paper: str, family: str, head: dict[str, Any]) -> Recipe:
    encoder = {**ENCODER, "family": family}
    return Recipe(
        name=name,
        about=about,
        paper=paper,
        view="wordpiece",
        encoder=encoder,
        head=head,
        train=TRAIN,
        checkpoint_train=CHECKPOINT_TRAIN,
    )


RECIPES = [
    Recipe(
        name="bert",
        about="pretrained encoder with a linear layer on the first token",
        paper="Devlin et al. (2019)",
        view="wordpiece",
        encoder=ENCODER,
        head=FIRST,
        train=TRAIN,
        checkpoint_train=CHECKPOINT_TRAIN,
    ),
    Recipe(
        name="bert_cnn",
        about="pretrained encoder with TextCNN's convolutions",
        paper="Devlin et al. (2019), Kim (2014)",
        view="wordpiece",
        encoder=ENCODER,
        head={"kind": "convolution"},
        train=TRAIN,
        checkpoint_train=CHECKPOINT_TRAIN,
    ),
    Recipe(
        name="bert_pta",
        about="pretrained encoder with a prompt, classified from its two masks",
        paper="Head-to-head attention + PTA (2024)",
        view="wordpiece_prompt",
        encoder=ENCODER,
        head={"kind": "prompt"},
        train=TRAIN,
        checkpoint_train=CHECKPOINT_TRAIN,
    ),
    Recipe(
        name="bert_pta_soft",
        about="pretrained encoder with a soft prompt, classified from its two masks",
        paper="Head-to-head attention + PTA (2024)",
        view="wordpiece_prompt",
        encoder=ENCODER,
        head={"kind": "prompt", "soft": True},
        train=TRAIN,
        checkpoint_train=CHECKPOINT_TRAIN,
    ),
    _family("roberta", "BERT without segments, pretrained longer on more text", "Liu et al. (2019)", "roberta", FIRST),
    _family("albert", "BERT with weights shared by all layers", "Lan et al. (2020)", "albert", FIRST),
    _family("macbert", "Chinese BERT, pretrained to correct similar words", "Cui et al. (2020)", "macbert", FIRST),
    _family("ernie", "BERT, pretrained with masked entities and phrases", "Sun et al. (2019)", "ernie", FIRST),
    _family(
        "xlnet",
        "Transformer with relative positions, pretrained on permuted texts",
        "Yang et al. (2019)",
        "xlnet",
        MEAN,
    ),
]

# bert_pta_soft is not in the paper
PRESETS = {
    recipe.name: Preset(
        head={"gamma": 0.5} if recipe.name == "bert_pta" else {},
        train=PAPER_TRAIN,
        checkpoint=True,
    )
    for recipe in RECIPES
    if recipe.name != "bert_pta_soft"
}
