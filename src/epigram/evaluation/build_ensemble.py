"""Ensemble of the systems of a run, one for each seed, from the systems' evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epigram.evaluation.arrays import Bools, Ints
from epigram.evaluation.decisions import predict_labels, seed_thresholds
from epigram.evaluation.ensemble import Blend, cross_fit, fit_blend, parts_of
from epigram.evaluation.ensemble_record import ENSEMBLE, EnsembleRecord, Member
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.label_probabilities import Probabilities, chosen, join, of_seed
from epigram.evaluation.results import Cost, Evaluation
from epigram.evaluation.scored_system import check_same_rows, truth_of
from epigram.evaluation.settings import EnsembleSettings, EvaluateSettings
from epigram.evaluation.splits import Split, SystemOutput, Target
from epigram.evaluation.stored_probabilities import SplitName, probabilities_of


@dataclass(frozen=True)
class Combined:
    """Record of an ensemble and its evaluation, which is None if the record has a reason."""

    record: EnsembleRecord
    evaluation: Evaluation | None = None


def build(
    systems: Sequence[Evaluation], splits: Sequence[Split], settings: EnsembleSettings, evaluate: EvaluateSettings
) -> Combined:
    """Return the ensemble of `systems`, scored on dev and test, the `splits`.

    For each seed, the members are the models of this seed. Their weights are chosen on the dev rows whose text is not
    in train: on the others, a model that has memorized train is right. The dev scores are cross-fitted. Systems that do
    not learn, such as the random baseline, are no candidates. Raises DataError if the systems' rows differ.
    """
    candidates = sorted((each for each in systems if _price(each)[1]), key=_price)
    if reason := _reason(candidates, splits, settings):
        return Combined(EnsembleRecord(reason=reason))
    check_same_rows([(each.metrics.system, truth_of(each.predictions)) for each in candidates])
    dev, test = splits
    first = candidates[0].metrics
    usable = ~dev.in_train if not dev.in_train.all() else np.ones(len(dev.rows), np.bool_)
    seeds = [_Seed(candidates, number, usable, settings) for number in range(len(first.seeds))]
    if all(np.count_nonzero(seed.blend.weights) == 1 for seed in seeds):
        return Combined(EnsembleRecord(reason="one system alone has the lowest log loss on the development set"))
    evaluation = evaluate_system(
        ENSEMBLE,
        Target(task=first.task, labels=first.labels, plain=first.labels.index(first.plain) if first.plain else 0),
        seeds=[seed.seed for seed in first.seeds],
        dev=dev,
        test=test,
        dev_output=SystemOutput(probabilities=join([seed.dev for seed in seeds], axis=0)),
        test_output=SystemOutput(probabilities=join([seed.test for seed in seeds], axis=0)),
        costs=[seed.cost for seed in seeds],
        settings=evaluate,
        temperatures=[seed.blend.temperature for seed in seeds],
    )
    return Combined(_record(candidates, seeds), evaluation)


def _reason(candidates: Sequence[Evaluation], splits: Sequence[Split], settings: EnsembleSettings) -> str:
    """Return why there is no ensemble; empty if there is one."""
    if not settings.enabled:
        return "ensemble.enabled is false"
    if len(candidates) < 2:
        return "an ensemble needs two systems that learn"
    if candidates[0].metrics.score == "token_f1":
        return "an ensemble labels texts, but here the labels of words are scored"
    return "" if len(splits[0].rows) > 1 else "an ensemble needs two development rows"


def _price(evaluation: Evaluation) -> tuple[float, int, str]:
    """Return FLOPs, parameters and name: of equally good members, the cheapest is selected."""
    cost, metrics = evaluation.metrics.seeds[0].cost, evaluation.metrics
    return cost.flops, cost.parameters, metrics.system


class _Seed:
    """Ensemble of the candidates' models of the seed at place `number`; `usable` (N,) are the rows to select by."""

    def __init__(
        self, candidates: Sequence[Evaluation], number: int, usable: Bools, settings: EnsembleSettings
    ) -> None:
        self.task, self.settings, self.usable = candidates[0].metrics.task, settings, usable
        self.labels = candidates[0].predictions.dev_labels
        self.members = _members(candidates, "dev", number)
        self.blend: Blend = fit_blend(chosen(self.members, usable), self.labels[usable], settings.rounds)
        self.dev = self._cross_fitted(self.members)
        self.test = self._blended(_members(candidates, "test", number), candidates[0].predictions.test_folds)
        costs = [each.metrics.seeds[number].cost for each in candidates]
        self.cost = _sum([cost for cost, weight in zip(costs, self.blend.weights, strict=True) if weight])

    def worth(self, member: int) -> float:
        """Return the dev score less that of an ensemble without the member; 0 for a member without weight."""
        if not self.blend.weights[member]:
            return 0.0
        others = [of_seed(self.members, n) for n in range(self.members.shape[0]) if n != member]
        return self._score(self.dev) - self._score(self._cross_fitted(join(others, axis=0)))

    def _cross_fitted(self, members: Probabilities) -> Probabilities:
        part = parts_of(self.labels, self.settings.parts)
        return cross_fit(members, self.labels, part, self.usable, self.settings.rounds)

    def _blended(self, test: Probabilities, folds: Ints | None) -> Probabilities:
        """Return the ensemble's probabilities for test; if it has `folds`, each one by the blend of the others."""
        if folds is None:
            return self.blend.combine(test)
        return cross_fit(self.members, self.labels, folds, self.usable, self.settings.rounds, blended=test)

    def _score(self, probabilities: Probabilities) -> float:
        thresholds = seed_thresholds(self.task, self.labels, probabilities, "threshold")
        return float(predict_labels(self.task, self.labels, probabilities, thresholds).row_scores().scores()[0])


def _members(candidates: Sequence[Evaluation], split: SplitName, number: int) -> Probabilities:
    """Return the probabilities (M, N, C) of the candidates' models of the seed at place `number`."""
    return join([of_seed(probabilities_of(each, split), number) for each in candidates], axis=0)


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


def _record(candidates: Sequence[Evaluation], seeds: Sequence[_Seed]) -> EnsembleRecord:
    members = [
        Member(
            system=each.metrics.system,
            weights=[float(seed.blend.weights[n]) for seed in seeds],
            worth=float(np.mean([seed.worth(n) for seed in seeds])),
            flops=each.metrics.seeds[0].cost.flops,
        )
        for n, each in enumerate(candidates)
        if any(seed.blend.weights[n] for seed in seeds)
    ]
    return EnsembleRecord(
        members=sorted(members, key=lambda member: -member.weight),
        temperatures=[seed.blend.temperature for seed in seeds],
    )
