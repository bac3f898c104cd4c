"""Growth of the training time with rows, classes, length and system, from measured points.

    python -m benchmarks.scale [--tiny]

prints each point as soon as it is measured (on the standard error), then all points and, for each system, the exponents
of a least-squares fit on logarithms: seconds of one pass over the texts ∝ rows^a · classes^b · length^c. An exponent of
1 means proportional growth. Systems trained by gradient are timed on some rows, and the time is scaled to all of them:
their exponent of rows is near 1 by construction. The texts are synthetic. It uses one thread and takes about twenty
minutes.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from itertools import product
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
import torch

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.linear_svm import LinearSvmConfig
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.training.config import TrainingConfig
from epigram.training.fitters import linear_svm
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective

SYSTEMS = ("textcnn", "transformer", "dmsp", "tfidf_svm")
SETTINGS = {"tfidf_svm": vars(LinearSvmConfig())}  # none is chosen
AXES = {
    "rows": (1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000),
    "classes": (2, 20, 200, 1_000),
    "length": (16, 64, 256),
}
CENTRE = {"rows": 4_000, "classes": 20, "length": 64}
POINTS, LARGEST = 32, 330_000_000  # measured points; the largest rows · classes · length of one
VOCABULARY, DEV = 5_000, 200
TOKENS = 80_000  # systems trained by gradient are timed on texts with about so many tokens; the time is scaled up


@dataclass(frozen=True)
class Point:
    """One measurement."""

    system: str
    rows: int
    classes: int
    length: int
    seconds: float


def grid(*, tiny: bool) -> list[tuple[int, int, int]]:
    """Return POINTS points (rows, classes, length): those that differ from CENTRE in one number, and random others."""
    sizes = [sizes for sizes in product(*AXES.values()) if prod(sizes) <= LARGEST]
    order = np.random.default_rng(0).permutation(len(sizes))
    changed = [sum(size != middle for size, middle in zip(s, CENTRE.values(), strict=True)) for s in sizes]
    chosen = sorted(order, key=lambda number: changed[number] > 1)[:POINTS]
    points = sorted(sizes[number] for number in chosen)
    return [(max(2 * c, r // 500), c, n // 8) for r, c, n in points[::8]] if tiny else points


def texts(rows: int, classes: int, length: int, seed: int) -> TextBatches:
    """Return texts of `length` / 2 to `length` tokens; the class determines a quarter of the tokens."""
    random = np.random.default_rng(seed)
    counts = random.integers(max(1, length // 2), length + 1, rows)
    labels = random.permutation(np.arange(rows) % classes)
    ids = random.integers(classes + 2, VOCABULARY, counts.sum())
    told = random.random(len(ids)) < 0.25
    return TextBatches(
        Ragged.from_lengths(np.where(told, 2 + np.repeat(labels, counts), ids), counts),
        prefix=[],
        suffix=[],
        max_length=length,
        pad_id=0,
        unk_id=1,
        labels=labels,
    )


def timed_rows(rows: int, length: int) -> int:
    """Return the number of `rows` on which a system trained by gradient is timed."""
    return min(rows, max(256, TOKENS // length))


def measured(system: str, rows: int, classes: int, length: int) -> Point:
    """Time one epoch with an evaluation on a few dev texts or, for a linear SVM, one fit."""
    recipe = RECIPES[system].changed(model=SETTINGS.get(system, {}))
    torch.manual_seed(0)
    model: Any = recipe.build(
        DataSpec(vocabulary=VOCABULARY, classes=classes, max_length=length, pos_weight=torch.ones(VOCABULARY)), system
    )
    if not recipe.by_gradient:
        train, dev = texts(rows, classes, length, 0), texts(max(DEV, classes), classes, length, 1)
        start = perf_counter()
        linear_svm.fit(model, train, dev, seed=0)
        return Point(system, rows, classes, length, perf_counter() - start)
    some = timed_rows(rows, length)
    train, dev = texts(some, classes, length, 0), texts(8, classes, length, 1)
    config = TrainingConfig(**{**recipe.train, "epochs": 1, "max_length": length})
    start = perf_counter()
    Trainer(model, label_objective(train, dev, config), seed=0).run()
    return Point(system, rows, classes, length, (perf_counter() - start) * rows / some)


def fit(points: list[Point]) -> tuple[np.ndarray, float]:
    """Return the exponents of rows, classes and length, and the error of the fit on points that it does not know.

    The error is the root of the mean square of log measured / fitted, where each point is compared with the fit to the
    others, as a factor minus 1: 0.1 means that an unknown point is typically 10% off.
    """
    x = np.log([[point.rows, point.classes, point.length] for point in points])
    y = np.log([point.seconds for point in points])
    columns = np.column_stack([np.ones(len(x)), x])
    inverse = np.linalg.pinv(columns)
    found = inverse @ y
    left_out = (y - columns @ found) / (1 - (columns * inverse.T).sum(1))
    return found[1:], float(np.expm1(np.sqrt((left_out**2).mean())))


def table(points: list[Point]) -> str:
    """Return the fits, then the seconds of each point, as Markdown."""
    lines = ["| system | rows | classes | length | error on points left out |", "| --- | --- | --- | --- | --- |"]
    for system in SYSTEMS:
        exponents, error = fit([point for point in points if point.system == system])
        lines.append(f"| {system} | {' | '.join(f'{e:.2f}' for e in exponents)} | {error:.0%} |")
    head = [*AXES, *(f"{system}, s" for system in SYSTEMS)]
    lines += ["", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    seconds = {(p.rows, p.classes, p.length, p.system): f"{p.seconds:.3g}" for p in points}
    for rows, classes, length in sorted({sizes[:3] for sizes in seconds}):
        cells = [seconds[rows, classes, length, system] for system in SYSTEMS]
        lines.append(f"| {' | '.join([f'{rows:,}', f'{classes:,}', str(length), *cells])} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure how the time of training grows.")
    parser.add_argument("--tiny", action="store_true", help="small texts, to see that it works")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    points = grid(tiny=asked.tiny)
    found = []
    for system in SYSTEMS:
        measured(system, *points[0])  # warm-up: the first run imports modules
        for point in points:
            found.append(measured(system, *point))
            print(found[-1], file=sys.stderr, flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
