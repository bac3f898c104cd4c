"""Training of small models on titles: our loop against a plain one with the same model, texts, steps and threads."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.configs import config_of
from benchmarks.corpora import encoded
from benchmarks.measured_steps import STEPS, WARM_UP, examples_of_both, our_run, parts, plain_run
from benchmarks.plain_loop import PADDINGS, Settings
from benchmarks.rows import Reach, Row
from benchmarks.timing import Plan
from epigram.inference.predictors.dataset_batches import data_spec_of
from epigram.models.precision import has_fast_bf16
from epigram.nn.layers.dropout import Dropout, replace_dropout
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View

SYSTEMS = ("textcnn", "dpcnn", "att_blstm", "transformer")
LENGTH = 32  # tokens; one of the peers pads every title to this length
TITLES = 10_000
SETTINGS = {"max_length": LENGTH, "steps": STEPS, "warm_up_steps": WARM_UP, "batch": "the recipe's", "threads": 1}


def peers() -> list[Settings]:
    """Return settings of the plain loop: the best known ones, then padding to max_length in fp32 as in a tutorial."""
    fast = has_fast_bf16("cpu")
    best = [Settings(padding, bf16) for bf16 in ({fast, False}) for padding in PADDINGS]
    return [*best, Settings("to max_length", bf16=False)]


def fresh(name: str, view: View, seed: int = 0) -> Any:
    """Return the system with new weights."""
    torch.manual_seed(seed)
    return RECIPES[name].build(data_spec_of(view, LENGTH), name)


def plain(name: str, view: View, seed: int = 0) -> Any:
    """Return the same model with PyTorch's dropout."""
    return replace_dropout(fresh(name, view, seed), Dropout, nn.Dropout)


def system_row(plan: Plan, name: str, view: View) -> Row:
    """Return titles per second of one epoch."""
    config = config_of(name, epochs=1, max_length=LENGTH)
    split = parts(plan, view, config.batch_size)
    examples, count = examples_of_both(split), len(split[1])

    def ours() -> dict[str, float]:
        model = fresh(name, view)
        return {"titles/s": count / our_run(model, view, split, config)}

    def peer(settings: Settings) -> dict[str, float]:
        return {"titles/s": count / plain_run(plain(name, view), view.pad_id, examples, config, settings)}

    kinds = plan.few(peers())
    mine, *others = plan.alternate(ours, *(partial(peer, kind) for kind in kinds))
    return Row(
        f"{name}, training on titles",
        "titles/s",
        mine["titles/s"],
        {kind.name: found["titles/s"] for kind, found in zip(kinds, others, strict=True)},
        Reach("≥", 2, "ratio"),
        accuracy=name,
    )


def rows(plan: Plan) -> list[Row]:
    """Return the throughput of every system."""
    view = View.load(encoded(plan, TITLES, TITLES))
    return [system_row(plan, name, view) for name in plan.few(SYSTEMS)]
