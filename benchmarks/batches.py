"""Batches of titles: their share of padding and the speed of making them, against a DataLoader that pads."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import torch

from benchmarks.corpora import encoded
from benchmarks.plain_loop import examples_of, padded_batches
from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import Plan
from epigram.inference.predictors.dataset_batches import batches_of, template_of
from epigram.models.batches import TextBatches
from epigram.text.dataset.encoded_dataset import Split, View

BATCH = 64
MAX_TOKENS = 16_384
TITLES = 10_000
SETTINGS = {"titles": TITLES, "batch": BATCH, "threads": 1}


def texts_of(view: View, part: Split, length: int) -> TextBatches:
    """Return a split, or some rows of one, in the format of our loop, with at most `length` tokens per text."""
    return TextBatches.from_template(template_of(view, length), part.ids, labels=part.labels)


def pad_share(texts: TextBatches, seed: int, batch: int = BATCH) -> float:
    """Return the percentage of the tokens of one epoch that are padding."""
    epoch = texts.epoch(np.random.default_rng(seed), batch, MAX_TOKENS)
    processed = sum(len(rows) * int(texts.lengths[rows].max()) for rows in epoch)
    return 100 * (1 - int(texts.lengths.sum()) / processed)


def rows(plan: Plan) -> list[Row]:
    """Return padding share and throughput at batch size 64."""
    torch.set_num_threads(1)
    view = View.load(encoded(plan, TITLES, TITLES))
    texts, examples = batches_of(view, "dev", template_of(view, 128)), examples_of(view.split("dev"))
    tokens = int(texts.lengths.sum())
    order = np.random.default_rng(0)

    def ours() -> dict[str, float]:
        start = perf_counter()
        for rows in texts.epoch(order, BATCH, MAX_TOKENS):
            texts.gather(rows)
            texts.targets(rows)
        return {"k tokens/s": tokens / (perf_counter() - start) / 1000}

    def peer() -> dict[str, float]:
        start = perf_counter()
        for _ in padded_batches(examples, view.pad_id, BATCH, padding="to the longest", longest=128):
            pass
        return {"k tokens/s": tokens / (perf_counter() - start) / 1000}

    shares = Measured(tuple(pad_share(texts, seed) for seed in range(5)))
    mine, other = (measured["k tokens/s"] for measured in plan.alternate(ours, peer))
    return [
        Row(f"padding, {len(texts):,} titles, batch {BATCH}", "% of tokens", shares, reach=Reach("≤", 15)),
        Row("making the batches", "k tokens/s", mine, {"DataLoader, pad_sequence": other}),
    ]
