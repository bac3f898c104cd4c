"""Paired comparison of accuracies: our runs minus a peer's on the same texts, with a 95% interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import short

RESAMPLES = 2_000
Right = NDArray[np.bool_]  # (K, N): whether the model of each of K seeds is right on each of N texts


def difference(name: str, about: str, ours: Right, peers: Mapping[str, Right]) -> dict[str, Any]:
    """Return accuracies (%) and, per peer, ours minus the peer's in points; `worse` if the interval is below 0."""
    found = []
    for peer, right in peers.items():
        low, high = interval(ours, right)
        gap = 100 * float(ours.mean() - right.mean())
        values = {"value": short(100 * float(right.mean())), "difference": short(gap)}
        found.append({"name": peer, **values, "low": short(low), "high": short(high), "worse": high < 0})
    about = f"{about}, {ours.shape[1]:,} texts, {ours.shape[0]} seeds"
    return {"name": name, "about": about, "ours": short(100 * float(ours.mean())), "peers": found}


def interval(ours: Right, peer: Right, seed: int = 0) -> tuple[float, float]:
    """Return the 95% interval of the difference in points; resamples paired texts and the seeds of each side."""
    generator = np.random.default_rng(seed)
    texts = ours.shape[1]
    draws = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        weight = np.bincount(generator.integers(texts, size=texts), minlength=texts)
        mine, other = (_drawn(side, generator) @ weight for side in (ours, peer))
        draws[i] = 100 * (mine - other) / texts
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def _drawn(right: Right, generator: np.random.Generator) -> NDArray[np.float64]:
    seeds = generator.integers(len(right), size=len(right))
    mean: NDArray[np.float64] = right[seeds].mean(0)
    return mean
