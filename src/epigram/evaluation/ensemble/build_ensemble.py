"""Ensemble of the systems of a run, one for each seed, from the systems' evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epigram.evaluation.arrays import Bools, Floats, Ints
from epigram.evaluation.comparison.scored_system import check_same_rows, truth_of
from epigram.evaluation.ensemble.weights import Blend, cross_fit, fit_blend, parts_of
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.metrics.decisions import predict_labels, seed_thresholds
from epigram.evaluation.metrics.primary import recorded_metric
from epigram.evaluation.records.ensemble_record import ENSEMBLE, EnsembleRecord, Member
from epigram.evaluation.records.results import Cost, Evaluated
from epigram.evaluation.settings import EnsembleSettings, EvaluateSettings
from epigram.evaluation.splits import GoldSplit, SystemOutput, Target


class SeedEnsemble:
    """Ensemble of the candidates' models of the seed at place `number`; `usable` (N,) are the rows to select by.

    `part` (N,) is the part of each row in the cross-fit. `dev` and `test` are the ensemble's probabilities (N, C).
    """

    def __init__(
        self, candidates: Sequence[Evaluated], number: int, usable: Bools, part: Ints, settings: EnsembleSettings
    ) -> None:
        self.task, self.rounds, self.usable, self.part = candidates[0].metrics.task, settings.rounds, usable, part
        self.labels, self.metric = candidates[0].dev.labels, recorded_metric(candidates[0].metrics)
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
        """Return how far the dev score falls without the member; 0 for a member without weight."""
        if not self.blend.weights[member]:
            return 0.0
        others = [each for n, each in enumerate(self.members) if n != member]
        return self._score(self.dev) - self._score(self._cross_fitted(others))

    def _cross_fitted(self, members: Sequence[Floats]) -> Floats:
        return cross_fit(members, self.labels, self.part, self.usable, self.rounds)

    def _score(self, probabilities: Floats) -> float:
        """Return the score that ranks the systems."""
        known, per_label = probabilities[None], self.metric.per_label
        thresholds = seed_thresholds(self.task, self.labels, known, "threshold", per_label=per_label)
        return self.metric.score(predict_labels(self.task, self.labels, known, thresholds, prices=self.metric.prices))


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


@dataclass(frozen=True)
class Combined:
    """Record of an ensemble and its evaluation, which is None if the record has a reason."""

    record: EnsembleRecord
    evaluation: Evaluated | None = None


def build(
    systems: Sequence[Evaluated], splits: Sequence[GoldSplit], settings: EnsembleSettings, evaluate: EvaluateSettings
) -> Combined:
    """Return the ensemble of `systems`, scored on dev and test, the `splits`.

    For each seed, the members are the models of this seed. Their weights are chosen on the dev rows whose text is not
    in train: on texts of train, a model that has memorized them is right. The dev scores are cross-fitted, with each
    group of dev in one part; if dev has folds, these are the parts. Systems that do not learn, such as the random
    baseline, are no candidates. An ensemble combines the labels of texts: where words alone have labels, there is none.
    Raises DataError if the systems' rows differ.
    """
    candidates = sorted((each for each in systems if _price(each)[1]), key=_price)
    if reason := _reason(candidates, splits, settings):
        return Combined(EnsembleRecord(reason=reason))
    check_same_rows([(each.metrics.system, truth_of(each)) for each in candidates])
    dev, test = splits
    first = candidates[0].metrics
    usable = ~dev.in_train if not dev.in_train.all() else np.ones(len(dev.rows), np.bool_)
    part = parts_of(dev.labels, settings.parts, dev.groups) if dev.folds is None else dev.folds
    seeds = [SeedEnsemble(candidates, number, usable, part, settings) for number in range(len(first.seeds))]
    if all(np.count_nonzero(seed.blend.weights) == 1 for seed in seeds):
        return Combined(EnsembleRecord(reason="one system alone has the lowest log loss on the development set"))
    evaluation = evaluate_system(
        ENSEMBLE,
        Target(
            task=first.task,
            labels=first.labels,
            metric=recorded_metric(first),
            plain=first.labels.index(first.plain) if first.plain else 0,
            hierarchy=first.hierarchy,
        ),
        seeds=[seed.seed for seed in first.seeds],
        dev=dev,
        test=test,
        dev_output=SystemOutput(probabilities=np.stack([seed.dev for seed in seeds])),
        test_output=SystemOutput(probabilities=np.stack([seed.test for seed in seeds])),
        costs=[seed.cost for seed in seeds],
        settings=evaluate,
        temperatures=[seed.blend.temperature for seed in seeds],
    )
    return Combined(_record(candidates, seeds), evaluation)


def _reason(candidates: Sequence[Evaluated], splits: Sequence[GoldSplit], settings: EnsembleSettings) -> str:
    """Return why there is no ensemble; empty if there is one."""
    if not settings.enabled:
        return "ensemble.enabled is false"
    if len(candidates) < 2:
        return "an ensemble needs two systems that learn"
    if candidates[0].metrics.score == "token_f1":
        return "an ensemble combines the labels of texts, and in these data only words have labels"
    return "" if len(splits[0].rows) > 1 else "an ensemble needs two development rows"


def _price(evaluation: Evaluated) -> tuple[float, int, str]:
    """Return FLOPs, parameters and name: of equally good members, the cheapest is selected."""
    cost, metrics = evaluation.metrics.seeds[0].cost, evaluation.metrics
    return cost.flops, cost.parameters, metrics.system


def _record(candidates: Sequence[Evaluated], seeds: Sequence[SeedEnsemble]) -> EnsembleRecord:
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
