"""Tests of prompts with one mask and with masks after the text: which states are read, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from epigram.core.errors import ParameterError
from epigram.models.recipe import Recipe
from epigram.models.settings import System
from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.heads.prompt import PromptConfig, PromptHead
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from epigram.text.settings import ViewSettings
from epigram.training.preflight import check_systems

MASK, PAD, WIDTH = 4, 0, 2
LABELS = torch.tensor([1, 0])
# Two texts of two and one tokens, of which the second is padded: (prefix, suffix, ids, positions of the masks)
PROMPTS: dict[str, tuple[list[int], list[int], list[list[int]], list[list[int]]]] = {
    "one mask before": ([9, MASK], [3], [[9, MASK, 5, 6, 3], [9, MASK, 7, 3, PAD]], [[1], [1]]),
    "one mask after": ([9], [8, MASK, 3], [[9, 5, 6, 8, MASK, 3], [9, 7, 8, MASK, 3, PAD]], [[4], [3]]),
    "two masks after": ([], [MASK, 8, MASK], [[5, 6, MASK, 8, MASK], [7, MASK, 8, MASK, PAD]], [[2, 4], [1, 3]]),
    "one on each side": ([MASK], [8, MASK], [[MASK, 5, 6, 8, MASK], [MASK, 7, 8, MASK, PAD]], [[0, 4], [0, 3]]),
}


def head(prefix: list[int], suffix: list[int], **settings: Any) -> PromptHead:
    """Return a head without dropout whose layers use the states as logits."""
    context = DataSpec(
        vocabulary=12, classes=2, max_length=16, mask_id=MASK, prefix_ids=tuple(prefix), suffix_ids=tuple(suffix)
    )
    encoder = TransformerConfig(width=WIDTH, heads=1, hidden=4, depth=1).build(context)
    made = PromptConfig(**{"dropout": 0.0, **settings}).build(context, encoder)
    for layer in (made.label, made.complement):
        if layer is not None:
            layer.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    return made


def states_of(ids: torch.Tensor) -> torch.Tensor:
    """Return a different state for every position of every text, (B, L, 2)."""
    return torch.arange(2.0 * ids.numel()).sin().reshape(*ids.shape, WIDTH)


@pytest.mark.parametrize("name", PROMPTS)
def test_each_head_reads_its_mask(name: str) -> None:
    prefix, suffix, rows, positions = PROMPTS[name]
    ids = torch.tensor(rows)
    states = states_of(ids)
    found = head(prefix, suffix)(Encoded((states, states), Tokens(ids, ids != PAD)), LABELS)
    masks = torch.stack([state[places] for state, places in zip(states, positions, strict=True)])  # (B, K, 2)
    first = masks[:, 0].log_softmax(-1)
    if masks.shape[1] == 1:
        torch.testing.assert_close(found.logits.softmax(-1), first.exp())
        torch.testing.assert_close(found.loss, cross_entropy(masks[:, 0], LABELS))
        assert found.parts is None
        return
    opposite = masks[:, 1].log_softmax(-1).flip(1)  # with two classes, 1 − p₂(c) is p₂ of the other class
    torch.testing.assert_close(found.parts, torch.stack([first, opposite]))
    torch.testing.assert_close(found.logits, (first + opposite) / 2)


def test_one_mask_has_one_layer_and_its_config_says_so() -> None:
    one, two = head([MASK], []), head([MASK, MASK], [])
    assert (one.complement, one.part_names, one.config.gamma) == (None, (), 1.0)
    assert two.complement is not None and len(two.part_names) == 2 and two.config.gamma == 0.5
    assert sum(p.numel() for p in one.parameters()) == 6  # 2×2 weights and 2 biases
    assert head([MASK], [], gamma=1.0).config.gamma == 1.0


@pytest.mark.parametrize(
    ("masks", "settings", "message"),
    [
        (
            (1, 0),
            {"gamma": 0.7},
            r"systems\.x: head\.gamma is 0\.7, which weighs two masks, but the prompt has one",
        ),
        ((1, 0), {"gamma": 0.5}, r"systems\.x: head\.gamma is 0\.5, which weighs two masks, but the prompt has one"),
        ((0, 1), {"soft": True}, r"systems\.x: head\.soft trains the words before the text, but"),
        ((1, 1), {"soft": True}, r"systems\.x: head\.soft trains the words before the text, but"),
    ],
)
def test_settings_that_do_not_fit_the_prompt_are_refused_before_a_run(
    masks: tuple[int, int], settings: dict[str, Any], message: str
) -> None:
    views, kind = {"v": ViewSettings(tokenizer="token", prompt=True)}, {"kind": "prompt"}
    check_systems(views, {"x": System(recipe="transformer", view="v", head=kind)}, {}, masks=masks)
    wrong = System(recipe="transformer", view="v", head={**kind, **settings})
    with pytest.raises(ParameterError, match=message):
        check_systems(views, {"x": wrong}, {}, masks=masks)
    if masks == (1, 0):
        check_systems(views, {"x": wrong}, {}, masks=(2, 0))


def test_a_prompt_without_words_before_the_text_has_no_soft_prompt() -> None:
    recipe = Recipe(
        name="x", about="", paper="", view="", encoder={"kind": "transformer", "width": 8, "heads": 1},
        head={"kind": "prompt", "soft": True},
    )  # fmt: skip
    with pytest.raises(ParameterError, match=r"head\.soft trains the words before the text"):
        recipe.build(DataSpec(vocabulary=12, classes=2, max_length=16, mask_id=MASK, prefix_ids=(MASK,)), "systems.x")
