"""Ensemble of the models of one seed: its weights, its predictions and the worth of its members."""

from __future__ import annotations

from collections.abc import Sequence

from epigram.evaluation.arrays import Bools, Floats, Ints
from epigram.evaluation.decisions import predict_labels, seed_thresholds
from epigram.evaluation.ensemble import Blend, cross_fit, fit_blend
from epigram.evaluation.results import Cost, Evaluated
from epigram.evaluation.settings import EnsembleSettings


class SeedEnsemble:
    """Ensemble of the candidates' models of the seed at place `number`; `usable` (N,) are the rows to select by.

    `part` (N,) is the part of each row in the cross-fit. `dev` and `test` are the ensemble's probabilities (N, C).
    """

    def __init__(
        self, candidates: Sequence[Evaluated], number: int, usable: Bools, part: Ints, settings: EnsembleSettings
    ) -> None:
        self.task, self.rounds, self.usable, self.part = candidates[0].metrics.task, settings.rounds, usable, part
        self.labels = candidates[0].dev.labels
        self.members = [each.dev.probabilities[number] for each in candidates]
        self.blend: Blend = fit_blend(self.members, self.labels, usable, self.rounds)
        self.dev = self._cross_fitted(self.members)
        self.test = self.dev
        if candidates[0].test.folds is None:
            test = [each.test.probabilities[number] for each in candidates]
            self.test = self.blend.apply(test, multi=self.task == "multi").astype("float32")
        costs = [each.metrics.seeds[number].cost for each in candidates]
        self.cost = _sum([cost for cost, weight in zip(costs, self.blend.weights, strict=True) if weight])

    def worth(self, member: int) -> float:
        """Return the dev score less that of an ensemble without the member; 0 for a member without weight."""
        if not self.blend.weights[member]:
            return 0.0
        others = [each for n, each in enumerate(self.members) if n != member]
        return self._score(self.dev) - self._score(self._cross_fitted(others))

    def _cross_fitted(self, members: Sequence[Floats]) -> Floats:
        return cross_fit(members, self.labels, self.part, self.usable, self.rounds)

    def _score(self, probabilities: Floats) -> float:
        """Return the score that ranks the systems."""
        thresholds = seed_thresholds(self.task, self.labels, probabilities[None], "threshold")
        scored = predict_labels(self.task, self.labels, probabilities[None], thresholds)
        return float(scored.row_scores().scores()[0])


def _sum(costs: Sequence[Cost]) -> Cost:
    """Return the cost of models that predict one after another."""
    inner, macs = ([getattr(cost, name) for cost in costs] for name in ("parameters_without_embeddings", "batch_macs"))
    return Cost(
        parameters=sum(cost.parameters for cost in costs),
        parameters_full=sum(cost.parameters_full for cost in costs),
        depth=None,
        depth_full=None,
        flops=sum(cost.flops for cost in costs),
        parameters_without_embeddings=None if None in inner else sum(inner),
        batch_macs=None if None in macs else sum(macs),
    )
