"""Check of every system of a run before anything runs, on small placeholder sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from epigram.core.errors import ParameterError
from epigram.models.recipe import Recipe
from epigram.models.settings import System
from epigram.nn.layers.types import DataSpec
from epigram.text.settings import ViewSettings
from epigram.training.check_system import check_student, check_system
from epigram.training.pretraining.further import check_further

VOCABULARY, LENGTH, WORD, MASK = 16, 16, 5, 4  # sizes and token ids of placeholders
FOLDER = Path("pretrained")  # never read: it only marks that there is one


def check_systems(
    views: Mapping[str, ViewSettings],
    systems: Mapping[str, System],
    train: Mapping[str, Any],
    *,
    masks: tuple[int, int] = (2, 0),
    multi: bool = False,
    tokens: bool = True,
    words_only: bool = False,
) -> None:
    """Raise ParameterError for an unknown system or setting, parts that do not fit, and a setting without effect.

    The arguments are these sections of params.yaml. `masks`: how many masks the prompt has before and after the text.
    `multi`: texts of the data may have several labels. `tokens`: the data have token labels, `words_only`: no others. A
    checkpoint is checked by its folder, without loading it. Raises InputMissingError or DataError if that folder is
    incomplete or damaged.
    """
    for name, view in views.items():
        if view.checkpoint is not None and view.pretrain is not None:
            check_further(name, view.checkpoint, view.pretrain)
    for name, system in systems.items():
        view = views[system.view]
        context = placeholder_spec(view, masks=masks, multi=multi, tokens=tokens)
        check_system(name, system, train, context)
        check_student(name, system, train, context, view.texts, words_only=words_only)


def is_trainable(recipe: Recipe, view: ViewSettings, *, multi: bool, tokens: bool) -> bool:
    """Return whether a system can be trained on such data, read by `view`."""
    try:
        recipe.check(placeholder_spec(view, multi=multi, tokens=tokens), recipe.name)
    except ParameterError:
        return False
    return True


def placeholder_spec(view: ViewSettings, *, masks: tuple[int, int] = (2, 0), multi: bool, tokens: bool) -> DataSpec:
    """Return the context that `view` determines, with small placeholder sizes for what the encoded texts determine.

    Optional data of the encoded texts, such as part-of-speech weights, are assumed to exist.
    """
    return DataSpec(
        vocabulary=VOCABULARY,
        classes=2,
        max_length=LENGTH,
        labels=("no", "yes"),
        multi=multi,
        token_labels=("O", "no", "yes") if tokens else (),
        characters=4 if view.characters else 0,
        mask_id=MASK if view.prompt else None,
        prefix_ids=(2, *(WORD, MASK) * masks[0], WORD) if view.prompt else (),  # [CLS], the prompt and its colon
        suffix_ids=(MASK, WORD) * masks[1] if view.prompt else (),
        pos_weight=torch.ones(VOCABULARY),
        label_shares=torch.full((2,), 0.5) if multi else None,
        checkpoint=view.checkpoint,
        pretrained=None if view.pretrain is None else FOLDER,
    )
