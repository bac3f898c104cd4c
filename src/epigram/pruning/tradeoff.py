"""Cost and score of a model at each depth."""

from __future__ import annotations

from typing import Any

from epigram.models.classifier import count_parameters
from epigram.models.complexity import flops
from epigram.models.serialization import Saved
from epigram.pruning.depth import PruningResult, truncated_copy


def pruning_record(saved: Saved, pruned: PruningResult, facts: dict[str, Any], length: int) -> dict[str, Any]:
    """Return the record of one seed for pruning.json: depths before and after, ξ, and the trade-off table.

    FLOPs are those of a text of `length` tokens, prompt included. In the table, `classifier_score` is α: the
    development score of the base classifier on the last layer of that depth; `score` is the name of that score. The
    score of the whole model may differ.
    """
    layered = saved.model.depth > 0
    record = {"seed": facts["seed"], "layered": layered, "reason": pruned.reason, "accepted": pruned.accepted}
    if not layered:
        return record
    return {
        **record,
        "threshold": pruned.threshold,
        "score": pruned.score,
        "depth_full": facts["depth_full"],
        "depth": pruned.model.depth,
        "tradeoff": [_point(saved, depth, alpha, length) for depth, alpha in enumerate(pruned.accuracies, 1)],
    }


def _point(saved: Saved, depth: int, alpha: float, length: int) -> dict[str, Any]:
    model = truncated_copy(saved.model, depth)
    return {
        "depth": depth,
        "classifier_score": alpha,
        "parameters": count_parameters(model),
        "flops": flops(model, length, saved.frame),
    }
