"""Small models, texts and settings of a combination of parts (see `combinations.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from epigram.models.batches import TextBatches
from epigram.models.recipe import Recipe
from epigram.models.settings import System
from epigram.nn.layers.types import DataSpec
from epigram.pruning.settings import PruneSettings
from epigram.text.settings import ViewSettings
from tests.support import families, small_systems
from tests.support.combinations import CHECKPOINTS
from tests.support.covering import Case
from tests.support.small_systems import CLASSES, SMALL, SMALL_HEADS, VOCABULARY

DEPTH = 3  # of every encoder with layers
SIZES: dict[str, dict[str, Any]] = {
    **SMALL,
    "bilstm": {**SMALL["bilstm"], "depth": DEPTH},
    "semantic_perceptron": {**SMALL["semantic_perceptron"], "depth": DEPTH},
    "pretrained": {"small": {"width": 32, "hidden": 48, "depth": DEPTH}},
}
CHECKPOINT_SIZES: dict[str, dict[str, Any]] = {
    **{family: {**families.SIZES, "vocab_size": VOCABULARY, "pad_token_id": 0} for family in ("bert", "roberta")},
    "xlnet": {**families.OTHERS["xlnet"], "n_layer": DEPTH, "vocab_size": VOCABULARY, "pad_token_id": 0},
}
HEAD_SIZES: dict[str, dict[str, Any]] = {
    **SMALL_HEADS,
    "interaction": {"hidden": 8},
    "label_attention": {"hidden": 8},
    "label_decoder": {"embedding": 8, "heads": 2, "hidden": 8},
    "layer_ensemble": {"mode": "ensemble", "hidden": 8},
}
ATTENTION: dict[str, dict[str, Any]] = {
    "dot": {},
    "no": {},
    "correlation": {"attention": "correlation"},
    "paper": {"head_to_head": "paper"},
    "residual": {"head_to_head": "residual"},
}
# the depth that is left, and the settings; `worst` drops the first layer if its accuracy is below the threshold of 0.5
PRUNING = {
    "last": (1, PruneSettings(rule="shallowest", tolerance=1.0, epochs=1)),
    "worst": (DEPTH - 1, PruneSettings(threshold=0.5, tolerance=1.0, drop="worst", epochs=1)),
}


def checkpoints(folder: Path) -> dict[str, str]:
    """Write a tiny random checkpoint of each family; return their folders."""
    return {
        family: str(families.checkpoint(family, folder / family, CHECKPOINT_SIZES[family])) for family in CHECKPOINTS
    }


def system_of(case: Case) -> System:
    """Return the entry of params.yaml."""
    kind, weight = case["encoder"], case["POS"]
    encoder = {"kind": "pretrained"} if kind in CHECKPOINTS else {"kind": kind, **SIZES[kind]}
    head = case["head"].removeprefix("soft ")
    return System(
        view="view",
        recipe="textcnn",
        encoder={
            **encoder,
            **ATTENTION[case["attention"]],
            **ATTENTION[case["HTH"]],
            **({} if weight == "none" else {"pos_weight": weight}),
        },
        head={
            "kind": head,
            **HEAD_SIZES.get(head, {}),
            **({"soft": True} if case["head"] == "soft prompt" else {}),
            **({"fusion": "hook"} if case["fusion"] == "hook" else {}),
        },
    )


def view_of(case: Case, folders: Mapping[str, str]) -> ViewSettings:
    """Return the view; `folders` are the checkpoints by family."""
    return ViewSettings(characters=True, prompt=case["prompt"] != "none", checkpoint=folders.get(case["encoder"]))


def recipe_of(case: Case) -> Recipe:
    """Return the recipe, whose `view` says whether there is a prompt."""
    system = system_of(case)
    base = Recipe(name="x", about="", paper="", view="text" if case["prompt"] == "none" else "prompt")
    return base.changed(encoder=system.encoder, head=system.head)


def context_of(case: Case, folders: Mapping[str, str]) -> DataSpec:
    """Return the properties of the data; half of the tokens have the part-of-speech weight 0.5."""
    recipe, several = recipe_of(case), case["labels"] == "several"
    context = small_systems.context_of(recipe, multi=several)
    return replace(
        context, checkpoint=folders.get(case["encoder"]), label_shares=torch.full((CLASSES,), 0.5) if several else None
    )


def texts_of(case: Case) -> TextBatches:
    """Return 16 texts with one label each or, if the case says so, some of them with two."""
    texts = small_systems.texts_of(recipe_of(case), count=16)
    if case["labels"] == "several":
        labels = texts.targets(np.arange(len(texts)))
        texts.labels = torch.nn.functional.one_hot(labels, CLASSES).to(torch.uint8)
        texts.labels[::4, 0] = 1
    return texts
