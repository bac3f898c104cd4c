"""Dynamic depth control of a trained model (DDCF): score the layers, drop some, fine-tune, accept or reject."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from epigram.core.rounding import clearly_above
from epigram.evaluation.metrics.primary import PrimaryMetric
from epigram.models.batches import TextBatches
from epigram.models.precision import Precision
from epigram.models.predict import predict
from epigram.nn.heads.layer_ensemble import LayerEnsembleHead
from epigram.nn.layers.depth_control import DepthControl
from epigram.pruning.settings import PruneSettings
from epigram.pruning.token_probe import labelled_texts, probe_tokens
from epigram.training.config import TOKEN_F1, TrainingConfig
from epigram.training.dev_score import TEXTS, DevScore
from epigram.training.frozen.probe import layer_votes
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.plan import WHOLE
from epigram.training.loop.progress import Report
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective


@dataclass(frozen=True, kw_only=True)
class PruningResult:
    """Result of pruning: `accepted` is whether the shallower model replaces the original, `reason` explains why."""

    model: Any
    reason: str
    accepted: bool = False
    threshold: float | None = None
    score: str = ""  # name of the score of the layers, of dev_before and of dev_after
    accuracies: tuple[float, ...] = ()
    dev_before: float = 0.0  # score of the original model by `stop_on`
    dev_after: float = 0.0  # score of the shallower model by `stop_on`
    dev_accuracy: float = 0.0  # text score of the shallower model


def layer_accuracies(
    model: Any,
    train: TextBatches,
    dev: TextBatches,
    classes: int,
    precision: Precision = "auto",
    scored: DevScore = TEXTS,
) -> list[float]:
    """Return the score α of every layer on dev, by the score of the whole model."""
    if scored.stop_on == "token":
        return probe_tokens(model, train, dev)
    votes = layer_votes(model, train, dev, classes, precision)
    alphas = scored.of_parts(votes, dev, multi=model.multi)
    if scored.stop_on not in TOKEN_F1:
        return alphas
    return [(text + token) / 2 for text, token in zip(alphas, probe_tokens(model, train, dev), strict=True)]


def drop_layers(model: Any, accuracies: list[float], control: DepthControl) -> int:
    """Drop the layers that the rule does not keep; return how many were dropped."""
    dropped = sorted(set(range(len(accuracies))) - set(control.remaining_layers(accuracies)), reverse=True)
    for layer in dropped:
        model.drop(layer)
    return len(dropped)


def prune(
    model: Any,
    train: TextBatches,
    dev: TextBatches | None,
    *,
    classes: int,
    settings: PruneSettings,
    config: TrainingConfig,
    seed: int,
    metric: PrimaryMetric,
    by_gradient: bool = True,
    layer_scores: Sequence[float] = (),
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> PruningResult:
    """Return a shallower model if the controller drops layers and the dev score falls by at most the tolerance.

    Otherwise the result holds the original model. The shallower model is fine-tuned for `settings.epochs` epochs at the
    learning rate of the original training. `by_gradient`: the original was trained by gradient descent; any other
    model is not pruned, because fine-tuning would change its kind. Without `dev`, which folds of train replace, the
    `layer_scores` of the folds' models choose the layers, and the score of the last remaining one judges the depth.
    """
    if (obstacle := _obstacle(model, train, settings, config, by_gradient)) is not None:
        return PruningResult(model=model, reason=obstacle)
    if dev is None and not layer_scores:
        return PruningResult(model=model, reason="the folds of train have no scores of the layers; train it again")
    control = DepthControl(
        threshold=settings.threshold, tolerance=settings.tolerance, rule=settings.rule, drop=settings.drop
    )
    smaller, scored = copy.deepcopy(model), DevScore(config.stop_on, metric)
    if dev is None:
        alphas, plan, named = list(layer_scores), WHOLE, "out-of-fold {} {} → {} before fine-tuning"
        before = alphas[-1]
    else:
        alphas = layer_accuracies(model, train, dev, classes, config.precision, scored)
        plan, named = None, "dev {} {} → {} after fine-tuning"
        before = scored.of(predict(model, dev, precision=config.precision), dev)
        smaller.temperature.fill_(1.0)  # it is fitted again after fine-tuning
    score = scored.name(multi=model.multi)
    facts: dict[str, Any] = {"threshold": control.xi(alphas), "score": score, "accuracies": tuple(alphas)}
    facts["dev_before"] = before
    dropped = drop_layers(smaller, alphas, control)
    if dropped == 0:
        good, weak = control.counts(alphas)
        reason = f"the rule keeps all {model.depth} layers: {good} are above the threshold, {weak} are not"
        return PruningResult(model=model, reason=reason, dev_after=before, **facts)
    tuned = TrainingConfig(**{**vars(config), "epochs": settings.epochs, "min_steps": 0, "warmup": 0.0})
    record = Trainer(
        smaller,
        label_objective(train, dev, tuned, metric=metric),
        seed=seed,
        report=report,
        checkpoints=checkpoints,
        plan=plan,
    ).run()
    after = alphas[control.remaining_layers(alphas)[-1]] if dev is None else record.score[0]
    scores = named.format(score, scored.text(before), scored.text(after))
    if clearly_above(before - after, settings.tolerance):
        reason = f"dropping {dropped} of {model.depth} layers costs too much: {scores}; all layers are kept"
        return PruningResult(model=model, reason=reason, dev_after=after, **facts)
    reason = f"{dropped} of {model.depth} layers dropped; {scores}"
    facts = {**facts, "dev_after": after, "dev_accuracy": record.accuracy}
    return PruningResult(model=smaller, reason=reason, accepted=True, **facts)


def _obstacle(
    model: Any, train: TextBatches, settings: PruneSettings, config: TrainingConfig, by_gradient: bool
) -> str | None:
    """Return why the model is not pruned, if it is not; its layers are not scored then."""
    if (obstacle := settings.obstacle(model.depth, by_gradient)) is not None:
        return obstacle
    if isinstance(model.head, LayerEnsembleHead) and model.head.config.mode == "control":
        return "depth is controlled during training"
    if config.stop_on in TOKEN_F1 and not len(labelled_texts(train, 1)):
        return "no training token has a label to score the layers by"
    return None


def truncated_copy(model: Any, depth: int) -> nn.Module:
    """Return a copy of `model` with its first `depth` layers, to measure the cost of a depth."""
    shallow: Any = copy.deepcopy(model)
    while shallow.depth > depth:
        shallow.drop(-1)
    result: nn.Module = shallow
    return result
