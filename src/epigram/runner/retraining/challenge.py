"""Comparison of a run's model (the challenger) with the champion on the current development texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import sha256
from epigram.models import manifest
from epigram.runner.champions import champion
from epigram.runner.champions.champion import Champion, Hashes, Score
from epigram.runner.champions.champion_refs import output_hash
from epigram.runner.dvc.graph import Graph
from epigram.runner.runs.publish import Run
from epigram.runner.workspace.settings import Settings

if TYPE_CHECKING:
    from epigram.evaluation.metrics.primary import PrimaryMetric
    from epigram.evaluation.metrics.scoring import SplitPredictions
    from epigram.monitoring.challenge import Promotion
    from epigram.text.dataset.validated_corpus import ValidatedCorpus

CORPUS, SUMMARY, CHOSEN = "corpus.json", "summary.json", "chosen"


@dataclass(frozen=True)
class Challenge:
    """Result of a comparison; `challenger` is the champion entry of the new model in case it is promoted."""

    decision: Promotion
    challenger: Champion


def challenge(root: Path, workspace: Path, stages: Graph, run: Run, settings: Settings) -> Challenge:
    """Compare the model that `run` chose with the champion on the development texts of the run.

    `workspace` is the tree that produced the model. Without a champion, the model is promoted.
    """
    from epigram.evaluation.metrics.primary import text_metric
    from epigram.monitoring.challenge import Promotion, decide
    from epigram.text.dataset.validated_corpus import ValidatedCorpus

    validated, chosen = _find_output(stages, CORPUS).parent, _find_output(stages, SUMMARY).with_name(CHOSEN)
    corpus = ValidatedCorpus.read(validated)
    metric = text_metric(settings.metric, corpus)
    new, latest = _predict_challenger(stages, run, chosen, corpus, metric), champion.current(root)
    entry = _new_entry(workspace, run, chosen, validated, metric, new, settings)
    if latest is None:
        return Challenge(Promotion(promoted=True, reason="first champion"), entry)
    folder = champion.restore(root, latest)  # also if the model is not new: a promotion may have been killed halfway
    if reason := _reason_to_skip(root, latest, entry.hashes.model):
        return Challenge(Promotion(promoted=False, reason=reason), entry)
    old = _predict(folder / "model", corpus, metric)
    names, asked = (entry.system, latest.system), settings.retrain
    criteria: dict[str, Any] = {"alpha": asked.alpha, "margin": asked.margin, "promote": asked.promote}
    return Challenge(decide(new, old, corpus.labels, metric=metric, names=names, **criteria), entry)


def check_dataset(latest: Champion | None, dataset: str) -> None:
    """Raise ParameterError if the champion was trained on another data set than `dataset`."""
    if latest is not None and latest.dataset != dataset:
        raise ParameterError(
            f"dataset is {dataset}, but the champion of this repository was trained on {latest.dataset}; "
            f"a repository has one champion, so use a separate clone for {dataset}"
        )


def _reason_to_skip(root: Path, latest: Champion, model: str) -> str:
    """Return why a model needs no comparison; empty if it needs one."""
    if latest.hashes.model == model:
        return "the model is the same as the champion"
    number = champion.rolled_back(root, model)
    return (
        f"the model is the same as champion {number}, which was rolled back; change the rows or settings"
        if number
        else ""
    )


def _new_entry(
    workspace: Path,
    run: Run,
    chosen: Path,
    validated: Path,
    metric: PrimaryMetric,
    new: SplitPredictions,
    settings: Settings,
) -> Champion:
    """Return the champion entry (champion.json) of the new model."""
    from epigram.evaluation.metrics.intervals import score_interval

    evaluated = settings.evaluate
    interval = score_interval(metric.rows(new), resamples=evaluated.resamples, confidence=evaluated.confidence)
    return Champion(
        run=run.name,
        dataset=run.dataset,
        system=run.comparison["chosen_system"],
        seed=run.comparison["chosen_seed"],
        score=Score(name=metric.name, value=interval.value, low=interval.low, high=interval.high),
        rows=len(new.gold),
        hashes=Hashes(
            data=output_hash(workspace, validated.relative_to(workspace).as_posix()),
            code=run.revision,
            params=sha256(workspace / "params.yaml"),
            model=champion.model_hash(chosen),
            provenance=manifest.read_provenance(chosen),
        ),
        model=chosen.relative_to(workspace).as_posix(),
    )


def _predict_challenger(
    stages: Graph, run: Run, chosen: Path, corpus: ValidatedCorpus, metric: PrimaryMetric
) -> SplitPredictions:
    """Return the predictions of the new model for the dev texts; an ensemble's are cross-fitted.

    Its weights were fitted on the dev texts, so its model scores too well on them. Its evaluation has the labels and
    the dev rows of `corpus`, in the same order.
    """
    from epigram.evaluation.records.ensemble_record import ENSEMBLE, RECORD

    if run.comparison["chosen_system"] != ENSEMBLE:
        return _predict(chosen, corpus, metric)
    return read_predictions(_find_output(stages, RECORD).parent, run.comparison["chosen_seed"])


def read_predictions(evaluated: Path, seed: int) -> SplitPredictions:
    """Return the predictions of a seed for the dev texts from the evaluation in the folder `evaluated`.

    Raises InputMissingError or DataError, which name the file.
    """
    import numpy as np

    from epigram.evaluation.metrics.decisions import predict_labels
    from epigram.evaluation.metrics.primary import recorded_metric
    from epigram.evaluation.records.results import read_evaluation

    evaluation = read_evaluation(evaluated)
    metrics, dev = evaluation.metrics, evaluation.dev
    number = [each.seed for each in metrics.seeds].index(seed)
    thresholds = np.array([metrics.seeds[number].thresholds])
    labels, prices = dev.labels.astype(np.int64), recorded_metric(metrics).prices
    return predict_labels(metrics.task, labels, dev.probabilities[[number]], thresholds, prices=prices)


def _predict(model: Path, corpus: ValidatedCorpus, metric: PrimaryMetric) -> SplitPredictions:
    """Predict the dev texts, with classes in the order of the corpus; labels unknown to the model get probability 0."""
    import numpy as np

    from epigram.evaluation.metrics.decisions import predict_labels
    from epigram.evaluation.metrics.primary import task_of
    from epigram.inference.predictors.open_predictor import open_predictor

    predictor, labels, texts = open_predictor(model), corpus.labels, corpus.frame("dev", "text", corpus.label_column)
    predicted = predictor.probabilities(texts["text"].to_list())
    probabilities, thresholds = np.zeros((1, len(predicted), len(labels))), np.ones((1, len(labels)))
    for column, label in enumerate(predictor.labels):
        if label in labels:
            probabilities[0, :, labels.index(label)] = predicted[:, column]
            thresholds[0, labels.index(label)] = predictor.thresholds[column]
    gold = corpus.label_array(texts).astype(np.int64)
    return predict_labels(task_of(corpus.task), gold, probabilities, thresholds, prices=metric.prices)


def _find_output(stages: Graph, name: str) -> Path:
    file = stages.find(name)
    if file is None:
        raise InputMissingError(f"the pipeline wrote no {name}; retraining requires a pipeline that compares systems")
    return file
