"""Ensemble of the models of one seed: its weights, its predictions and the worth of its members."""

from __future__ import annotations

from collections.abc import Sequence

from epigram.evaluation.arrays import Bools, Ints
from epigram.evaluation.decisions import predict_labels, seed_thresholds
from epigram.evaluation.ensemble import Blend, cross_fit, fit_blend
from epigram.evaluation.member_outputs import MemberOutputs, gold_of, outputs_of
from epigram.evaluation.results import Cost, Evaluation
from epigram.evaluation.settings import EnsembleSettings
from epigram.evaluation.tokens import LabelledWords
from epigram.evaluation.word_predictions import most_likely


class SeedEnsemble:
    """Ensemble of the candidates' models of the seed at place `number`; `usable` (N,) are the rows to select by.

    `part` (N,) is the part of each row in the cross-fit.
    """

    def __init__(
        self, candidates: Sequence[Evaluation], number: int, usable: Bools, part: Ints, settings: EnsembleSettings
    ) -> None:
        self.task, self.settings, self.usable, self.part = candidates[0].metrics.task, settings, usable, part
        self.gold, members = gold_of(candidates[0]), outputs_of(candidates, "dev", number)
        gold = self.gold.rows(usable)
        self.word_temperatures = members.rows(usable).word_temperatures(gold)
        self.members = members.calibrated(self.word_temperatures)
        self.blend: Blend = fit_blend(self.members.rows(usable), gold, settings.rounds)
        self.dev = self._cross_fitted(self.members)
        self.test = self.dev
        if candidates[0].predictions.test_folds is None:
            self.test = self.blend.combine(outputs_of(candidates, "test", number).calibrated(self.word_temperatures))
        costs = [each.metrics.seeds[number].cost for each in candidates]
        self.cost = _sum([cost for cost, weight in zip(costs, self.blend.weights, strict=True) if weight])

    def worth(self, member: int) -> float:
        """Return the dev score less that of an ensemble without the member; 0 for a member without weight."""
        if not self.blend.weights[member]:
            return 0.0
        return self._score(self.dev) - self._score(self._cross_fitted(self.members.without(member)))

    def _cross_fitted(self, members: MemberOutputs) -> MemberOutputs:
        return cross_fit(members, self.gold, self.part, self.usable, self.settings.rounds)

    def _score(self, outputs: MemberOutputs) -> float:
        """Return the score that ranks the systems."""
        labels, gold = self.gold.texts, self.gold.words
        if self.gold.words_only and gold is not None and outputs.words is not None:
            said = most_likely(outputs.words.values[:, 0])
            return float(LabelledWords(gold, said[None]).words.row_scores().scores()[0])
        thresholds = seed_thresholds(self.task, labels, outputs.texts, "threshold")
        return float(predict_labels(self.task, labels, outputs.texts, thresholds).row_scores().scores()[0])


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
