"""What each depth of a model costs and gives."""

from __future__ import annotations

from typing import Any

from pithy.pruning.depth import Pruned, shallower
from pithy.systems.complexity import flops
from pithy.systems.model import parameters
from pithy.systems.saved import Saved


def record_of(saved: Saved, pruned: Pruned, facts: dict[str, Any]) -> dict[str, Any]:
    """The record of one seed for pruning.json: depths before and after, ξ, and the trade-off table.

    In the table `dev_accuracy` is α, that of the base classifier on the layer that would be the last.
    """
    layered = saved.model.depth > 0
    record = {"seed": facts["seed"], "layered": layered, "reason": pruned.reason, "accepted": pruned.accepted}
    if not layered:
        return record
    return {
        **record,
        "threshold": pruned.threshold,
        "depth_full": facts["depth_full"],
        "depth": pruned.model.depth,
        "tradeoff": [_point(saved, depth, alpha) for depth, alpha in enumerate(pruned.accuracies, 1)],
    }


def _point(saved: Saved, depth: int, alpha: float) -> dict[str, Any]:
    model, frame = shallower(saved.model, depth), saved.frame
    length = min(32, frame.max_length - len(frame.prefix_ids) - len(frame.suffix_ids))
    text = len(frame.prefix_ids) + length + len(frame.suffix_ids)
    return {
        "depth": depth,
        "dev_accuracy": alpha,
        "parameters": parameters(model),
        "flops": flops(model, text, frame),
    }
