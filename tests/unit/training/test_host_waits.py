"""Tests that a training step does not make the host wait for a GPU, for every system that is trained by gradient.

Most tests need no GPU. The CPU shows the operators that read values, and the device `meta`, which has no values, shows
copies between host and device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import unwrap
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.config_types import validate_as
from epigram.models.batches import TextBatches
from epigram.recipes.registry import RECIPES
from epigram.training.config import TrainingConfig
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.base import Batch
from epigram.training.objectives.classification import Classification
from epigram.training.objectives.contrastive import Contrastive
from epigram.training.pretraining.masked_language import MaskedLanguage
from epigram.training.pretraining.word_masking import Masking
from tests.support.host_waits import Waits
from tests.support.small_systems import NAMES, build, recipe_of, texts_of
from tests.unit.training.test_pretraining_batches import pretrainer

SPELLERS = ("mhal_joint", "mhal_sent", "mhal_sent_tok", "mhal_tok", "mhal_zero")
WAITS = {  # and what they read of a batch of up to 14 tokens
    **{name: ["_local_scalar_dense", "unique_dim"] for name in SPELLERS},  # the longest token, and distinct spellings
    "universal_transformer": ["_local_scalar_dense"] * 3,  # after each block, whether all tokens have halted
}
TRAINED = [name for name in NAMES if RECIPES[name].kind in {"classifier", "contrastive_classifier"}]
FREE = [name for name in TRAINED if name not in WAITS]
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="requires a GPU")


def system_of(name: str, device: str = "cpu", *, multi: bool = False) -> tuple[Any, Classification]:
    """Return a small system and its objective, with the settings of its recipe and batches of 8 texts."""
    recipe = recipe_of(name)
    texts = texts_of(recipe, device=device)
    if recipe.view != "spelled":
        texts.characters = None
    if multi:
        texts.labels = (torch.arange(len(texts))[:, None] % torch.tensor([1, 2, 3]) == 0).long().to(device)
    config = validate_as(TrainingConfig, {**recipe.train, "batch_size": 8, "min_steps": 0}, "train")
    model = build(recipe, multi=multi).to(device).train()
    if recipe.kind == "contrastive_classifier":
        return model, Contrastive(texts, config)
    return model, Classification(texts, texts, config)


def batches_of(texts: TextBatches) -> list[Batch]:
    """Return a batch of texts of several lengths and one without padding."""
    longest = np.argsort(texts.lengths, kind="stable")[-8:]
    assert len(set(texts.lengths[longest])) > 1
    return [Batch(texts, longest), Batch(texts, longest[-1:])]


def waits_of(step: Callable[[Batch], Any], texts: TextBatches) -> list[str]:
    with Waits() as waits:
        for batch in batches_of(texts):
            step(batch)
    return waits.found


@pytest.mark.parametrize("name", TRAINED)
def test_a_step_reads_nothing_from_the_device(name: str) -> None:
    model, objective = system_of(name)
    found = waits_of(Trainer(model, objective, seed=0).step, objective.train)
    assert found == WAITS.get(name, []) * 2, f"{name} waits for the device in {found}"


@pytest.mark.parametrize("name", [name for name in FREE if name != "setfit"])  # `meta` has no labels to make pairs of
def test_a_step_copies_only_the_numbers_of_its_texts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)  # raises for `meta`
    model, objective = system_of(name, "meta")
    found = waits_of(lambda batch: objective.loss(model, batch).backward(), objective.train)
    own = 2  # of a batch: rows of texts and of labels, which a GPU copies from pinned memory
    assert found == ["_to_copy"] * own * 2, f"{name} copies between host and device: {found}"


@pytest.mark.parametrize("name", TRAINED)
def test_known_lengths_decide_as_those_that_are_read(name: str) -> None:
    model, objective = system_of(name)
    for batch in batches_of(objective.train):
        known = batch.texts.gather(batch.rows)
        losses = []
        for tokens in (known, replace(known, lengths=None)):
            torch.manual_seed(0)  # of dropout
            losses.append(model(tokens, batch.texts.targets(batch.rows)).loss)
        assert torch.equal(*losses)


def test_the_decoder_of_several_labels_reads_only_their_largest_number() -> None:
    model, objective = system_of("cnle", multi=True)
    found = waits_of(Trainer(model, objective, seed=0).step, objective.train)
    assert found == ["_local_scalar_dense"] * 2, "one read for each batch"


def test_pretraining_reads_only_which_tokens_are_masked() -> None:
    trainer = pretrainer()
    objective = trainer.objective
    assert isinstance(objective, MaskedLanguage)
    batches = list(objective.epoch(np.random.default_rng(0)))
    measure = unwrap(MaskedLanguage.measure)  # in inference mode, reads are not found
    for work in (lambda: [trainer.step(batch) for batch in batches], lambda: measure(objective, trainer.model)):
        with Waits() as waits:
            work()
        assert waits.found == ["nonzero"] * len(batches)


@gpu
def test_a_gpu_is_not_waited_for_when_words_are_masked() -> None:
    masking = Masking(share=0.3, mask_id=4, ordinary=torch.arange(5, 9, device="cuda"))
    words, generator = torch.arange(12, device="cuda").view(2, 6), torch.Generator()
    masking(words, words, generator)  # reserves pinned memory
    torch.cuda.set_sync_debug_mode("error")
    try:
        masking(words, words, generator)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@gpu
@pytest.mark.parametrize("name", FREE)
def test_a_gpu_is_not_waited_for(name: str) -> None:
    model, objective = system_of(name, "cuda")
    trainer, batches = Trainer(model, objective, seed=0), batches_of(objective.train)
    trainer.step(batches[0])  # creates the optimizer's state
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in batches:
            trainer.step(batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(
    ("operation", "found"),
    [
        (lambda x: bool(x.all()), ["_local_scalar_dense"]),
        (lambda x: x[x > 1], ["index.Tensor"]),
        (lambda x: x.masked_select(x > 1), ["masked_select"]),
        (lambda x: x.nonzero_static(size=3), []),
        (lambda x: x[x.nonzero_static(size=3).unbind(1)], []),
        (torch.unique, ["_unique2"]),
        (lambda x: torch.repeat_interleave(x, x.long()), ["repeat_interleave.Tensor"]),
        (lambda x: torch.repeat_interleave(x, x.long(), output_size=6), []),
        (lambda x: x.requires_grad_().masked_scatter(x > 1, x).sum().backward(), ["masked_scatter_backward"]),
        (lambda x: x.to("meta"), ["_to_copy"]),
        (lambda x: x.double(), []),
    ],
)
def test_which_operations_wait(operation: Callable[[torch.Tensor], Any], found: list[str]) -> None:
    with Waits() as waits:
        operation(torch.tensor([1.0, 2.0, 3.0]))
    assert waits.found == found
