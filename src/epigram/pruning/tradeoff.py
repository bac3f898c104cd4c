"""Cost and score of a model at each depth."""

from __future__ import annotations

from epigram.evaluation.records.pruning_record import Point, SeedPruning
from epigram.models.classifier import count_parameters
from epigram.models.complexity import flops
from epigram.models.manifest import TrainingFacts
from epigram.models.serialization import Saved
from epigram.pruning.depth import PruningResult, truncated_copy


def seed_record(saved: Saved, pruned: PruningResult, facts: TrainingFacts, length: int) -> SeedPruning:
    """Return the record of one seed for pruning.json: depths before and after, ξ, and the trade-off table.

    FLOPs are per text of `length` tokens, prompt included. In the table, `classifier_score` is α: the development score
    of the base classifier on the last layer at this depth; `score` is the score's name. The score of the whole model
    may differ.
    """
    if saved.model.depth == 0:
        return SeedPruning(seed=facts.seed, layered=False, reason=pruned.reason, accepted=pruned.accepted)
    return SeedPruning(
        seed=facts.seed,
        layered=True,
        reason=pruned.reason,
        accepted=pruned.accepted,
        threshold=pruned.threshold,
        score=pruned.score,
        depth_full=facts.depth_full,
        depth=pruned.model.depth,
        tradeoff=[_point(saved, depth, alpha, length) for depth, alpha in enumerate(pruned.accuracies, 1)],
    )


def _point(saved: Saved, depth: int, alpha: float, length: int) -> Point:
    model = truncated_copy(saved.model, depth)
    return Point(
        depth=depth,
        classifier_score=alpha,
        parameters=count_parameters(model),
        flops=flops(model, length, saved.frame),
    )
