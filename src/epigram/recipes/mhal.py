"""MHAL in the paper's five regimes: one attention head per token label; the heads' scores label the text."""

from __future__ import annotations

from typing import Any

from epigram.models.recipe import Preset, Recipe

# Without pretrained vectors, the paper's Adadelta takes several times as many epochs (docs/development/log.md).
TRAIN = {
    "optimizer": "adam",
    "learning_rate": 2e-3,
    "weight_decay": 0.0,
    "schedule": "plateau",
    "warmup": 0.0,
    "clip": 5.0,
    "batch_size": 32,
    "epochs": 10,
    "patience": 3,
}


def _regime(name: str, about: str, *, sentence: float, token: float, bridges: bool, stop_on: str) -> Recipe:
    """Return the recipe of a regime; `bridges` adds the attention, query similarity and language model losses."""
    head: dict[str, Any] = {"kind": "attention_labeler", "sentence_weight": sentence, "token_weight": token}
    encoder: dict[str, Any] = {"kind": "char_bilstm"}
    if bridges:
        head |= {"attention_weight": 0.01, "query_weight": 0.5}
        encoder |= {"lm_weight": 0.1}
    return Recipe(
        name=name,
        about=about,
        paper="MHAL (2020)",
        view="spelled",
        encoder=encoder,
        head=head,
        train={**TRAIN, "stop_on": stop_on},
    )


RECIPES = [
    _regime(
        "mhal_sent",
        "one attention head per token label, trained on text labels",
        sentence=1.0,
        token=0.0,
        bridges=False,
        stop_on="sentence",
    ),
    _regime(
        "mhal_tok",
        "one attention head per token label, trained on token labels",
        sentence=0.0,
        token=1.0,
        bridges=False,
        stop_on="token",
    ),
    _regime(
        "mhal_sent_tok",
        "one attention head per token label, trained on text and token labels",
        sentence=1.0,
        token=1.0,
        bridges=False,
        stop_on="token",
    ),
    _regime(
        "mhal_joint",
        "mhal_sent_tok with language models and auxiliary losses",
        sentence=1.0,
        token=1.0,
        bridges=True,
        stop_on="token",
    ),
    _regime(
        "mhal_zero",
        "mhal_sent with language models and auxiliary losses: zero-shot token labels",
        sentence=1.0,
        token=0.0,
        bridges=True,
        stop_on="sentence",
    ),
]


def _preset(recipe: Recipe) -> Preset:
    """Return the settings of the paper's Table 6 and of its Eq. 11; it has no clipping.

    The language models' loss stays a mean: with the sum, the text labels are not learned (docs/development/log.md).
    """
    bridges = "lm_weight" in recipe.encoder
    models = {"lm_weight": 0.1, "lm_spelling": "words", "lm_hidden": 50, "lm_vocabulary": 7_500} if bridges else {}
    targets = {"smoothing": 0.15, "smoothing_over": "token_labels", "default_target": "smoothed"}
    auxiliary = {"attention_weight": 0.01, "query_weight": 0.5, **targets} if bridges else {}
    # F1* of the texts only in the regimes that learn no token labels, as the paper's section on Table 3 says
    stop_on = "token" if recipe.head["token_weight"] else "sentence_f1"
    sizes = {"embedding": 300, "width": 300, "character_embedding": 100, "character_width": 100, "spelling": 50}
    return Preset(
        encoder={**sizes, "dropout": 0.5, **models},
        head={"hidden": 200, "text_hidden": 50, "dropout": 0.5, **auxiliary},
        train={
            "optimizer": "adadelta",
            "learning_rate": 1.0,
            "epsilon": 1e-8,
            "weight_decay": 0.0,
            "schedule": "plateau",
            "warmup": 0.0,
            "clip": None,
            "batch_size": 32,
            "epochs": 200,
            "patience": 7,
            "stop_on": stop_on,
        },
    )


PRESETS = {recipe.name: _preset(recipe) for recipe in RECIPES}
