"""Fine-tuning MiniLM on film reviews: our loop against transformers' Trainer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch

from benchmarks import minilm, trainer_peer
from benchmarks.batches import MAX_TOKENS, pad_share, texts_of
from benchmarks.configs import config_of
from benchmarks.corpora import minilm as minilm_view
from benchmarks.measured_steps import WARM_UP, our_run, parts
from benchmarks.minilm import FAST
from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import Plan, SkippedError
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import TrainingConfig

BATCH, STEPS = 32, 100
SETTINGS = {"batch": BATCH, "max_length": minilm.LENGTH, "steps": STEPS, "warm_up_steps": WARM_UP, "threads": "all"}
Rates = dict[str, Measured]


def settings(view: View) -> TrainingConfig:
    """Return the recipe's own settings for one epoch."""
    changes = {"epochs": 1, "batch_size": BATCH, "max_length": minilm.LENGTH, "max_tokens": MAX_TOKENS}
    return config_of(minilm.SYSTEM, view.checkpoint, **changes)


def peers() -> list[trainer_peer.Settings]:
    """Return the Trainer's best known settings, in the precision that is fast on this machine."""
    bf16 = FAST == "bf16"
    return [
        trainer_peer.Settings(grouped=True, bf16=bf16),
        trainer_peer.Settings(grouped=True, bf16=bf16, workers=2),
        trainer_peer.Settings(grouped=False, bf16=bf16),
    ]


def arguments(view: View) -> dict[str, float]:
    """Return the Trainer's arguments that are equal to our settings."""
    return {"per_device_train_batch_size": BATCH, "learning_rate": settings(view).learning_rate}


def prepared(plan: Plan) -> View:
    """Return the texts encoded for MiniLM. Raises SkippedError if its weights or accelerate are missing."""
    if find_spec("accelerate") is None:
        raise SkippedError("the Trainer needs accelerate: pip install accelerate")
    return View.load(minilm_view(plan.scratch))


def throughput(plan: Plan, view: View) -> tuple[Rates, Rates, dict[str, Measured]]:
    """Return the machine's limits, our rates and each peer's texts per second, from whole runs in turn."""
    config, split = settings(view), parts(plan, view, BATCH, STEPS)
    flops = minilm.training_flops(minilm.ours(view), texts_of(view, split[1], minilm.LENGTH).lengths)
    examples, count = [trainer_peer.examples(view, part) for part in split], len(split[1])

    def limits() -> dict[str, float]:
        return {name: minilm.limit(plan, name) for name in {FAST, "fp32"}}  # emulated bf16 would take minutes

    def ours() -> dict[str, float]:
        seconds = our_run(minilm.ours(view), view, split, config)
        return {"texts/s": count / seconds, "GFLOP/s": flops / seconds / 1e9}

    def peer(how: trainer_peer.Settings) -> dict[str, float]:
        seconds = trainer_peer.run(view, (examples[0], examples[1]), how, plan.scratch, **arguments(view))
        return {"texts/s": count / seconds}

    kinds = plan.few(peers())
    works: list[Callable[[], dict[str, float]]] = [limits, ours, *(partial(peer, how) for how in kinds)]
    most, mine, *others = plan.alternate(*works)
    return most, mine, {how.name: found["texts/s"] for how, found in zip(kinds, others, strict=True)}


def padding_row(view: View) -> Row:
    """Return the percentage of padding in an epoch, with our batches and with the Trainer's grouping."""
    from transformers.trainer_pt_utils import LengthGroupedSampler

    texts = texts_of(view, view.split("train"), minilm.LENGTH)

    def grouped(seed: int) -> float:
        generator = torch.Generator().manual_seed(seed)
        order = list(LengthGroupedSampler(BATCH, lengths=texts.lengths.tolist(), generator=generator))
        parts = [texts.lengths[order[start : start + BATCH]] for start in range(0, len(order), BATCH)]
        return 100 * (1 - int(texts.lengths.sum()) / sum(len(part) * int(np.max(part)) for part in parts))

    mine = Measured(tuple(pad_share(texts, seed, BATCH) for seed in range(5)))
    other = Measured(tuple(map(grouped, range(5))))
    return Row(f"padding, batch {BATCH}", "% of tokens", mine, {"transformers Trainer, grouped by length": other})


def rows(plan: Plan) -> list[Row]:
    """Return throughput against each peer, our share of the machine's limit, and the padding."""
    view = prepared(plan)
    limits, mine, others = throughput(plan, view)
    shares = Measured(
        tuple(100 * ours / most for ours, most in zip(mine["GFLOP/s"].runs, limits[FAST].runs, strict=True))
    )
    share = shares.median / 100
    work, reach = f"MiniLM, {view.corpus}, fine-tuning, batch {BATCH}", Reach("≥", 1.35, "ratio")
    return [
        Row(work, "texts/s", mine["texts/s"], others, reach, share, accuracy="minilm"),
        Row("the same, model FLOPs on real tokens", f"% of {FAST} limit", shares, reach=Reach("≥", 65), limit=share),
        Row(f"matrix products, {FAST}", "GFLOP/s", limits[FAST], {"fp32": limits["fp32"]}),
        padding_row(view),
    ]
