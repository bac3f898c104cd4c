"""Comparison of a run's model (the challenger) with the champion on the current development texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import read_json, sha256
from epigram.models import provenance
from epigram.runner.dvc.graph import Graph
from epigram.runner.prefect.publish import Run
from epigram.runner.retraining import champion
from epigram.runner.retraining.champion import Champion, Hashes, Score
from epigram.runner.workspace.settings import Settings

if TYPE_CHECKING:
    import polars as pl

    from epigram.evaluation.scoring import SplitPredictions
    from epigram.monitoring.challenge import Decision

CORPUS, SUMMARY, CHOSEN = "corpus.json", "summary.json", "chosen"


@dataclass(frozen=True)
class Challenge:
    """Result of a comparison; `challenger` is the champion entry of the new model in case it is promoted."""

    decision: Decision
    challenger: Champion


def challenge(root: Path, place: Path, stages: Graph, run: Run, settings: Settings) -> Challenge:
    """Compare the model that `run` chose with the champion on the development texts of the run.

    `place` is the tree that produced the model. Without a champion, the model is promoted.
    """
    from epigram.monitoring.challenge import Decision, decide

    validated, chosen = _found(stages, CORPUS).parent, _found(stages, SUMMARY).with_name(CHOSEN)
    corpus, texts = read_json(validated / CORPUS), dev_texts(validated)
    new, now = _answers(chosen, corpus, texts), champion.current(root)
    entry = _entry(place, run, chosen, validated, new, settings)
    if now is None:
        return Challenge(Decision(promoted=True, reason="the first champion"), entry)
    folder = champion.restore(root, now)  # also if the model is not new: a promotion may have been killed halfway
    if reason := _not_new(root, now, entry.hashes.model):
        return Challenge(Decision(promoted=False, reason=reason), entry)
    old = _answers(folder / "model", corpus, texts)
    bar = {"alpha": settings.retrain.alpha, "margin": settings.retrain.margin}
    return Challenge(decide(new, old, corpus["labels"], names=(entry.system, now.system), **bar), entry)


def refuse_other(now: Champion | None, dataset: str) -> None:
    """Raise ParameterError if the champion was trained on another data set than `dataset`."""
    if now is not None and now.dataset != dataset:
        raise ParameterError(
            f"dataset was {dataset}, and the champion answers {now.dataset}: a repository has one champion; "
            f"keep {dataset} in a clone of its own"
        )


def _not_new(root: Path, now: Champion, model: str) -> str:
    """Return why a model needs no comparison; empty if it needs one."""
    if now.hashes.model == model:
        return "the same model as the champion: nothing has changed"
    number = champion.taken_back(root, model)
    return (
        f"champion {number} again, which was taken back: a model of other rows or settings is needed" if number else ""
    )


def _entry(place: Path, run: Run, chosen: Path, validated: Path, new: SplitPredictions, settings: Settings) -> Champion:
    """Return the champion entry (champion.json) of the new model."""
    from epigram.evaluation.intervals import score_interval
    from epigram.evaluation.scoring import SCORE

    drawn = settings.evaluate
    interval = score_interval(new.row_scores(), resamples=drawn.resamples, confidence=drawn.confidence)
    return Champion(
        run=run.name,
        dataset=run.dataset,
        system=run.comparison["chosen_system"],
        seed=run.comparison["chosen_seed"],
        score=Score(name=SCORE[new.task], value=interval.value, low=interval.low, high=interval.high),
        rows=len(new.gold),
        hashes=Hashes(
            data=champion.output_hash(place, validated.relative_to(place).as_posix()),
            code=run.revision,
            params=sha256(place / "params.yaml"),
            model=champion.model_hash(chosen),
            provenance=provenance.read(chosen),
        ),
        model=chosen.relative_to(place).as_posix(),
    )


def dev_texts(validated: Path) -> pl.DataFrame:
    """Return the development texts of a validated data set, with their labels."""
    import polars as pl

    return pl.read_parquet(validated / "dev.parquet")


def _answers(model: Path, corpus: dict[str, Any], texts: pl.DataFrame) -> SplitPredictions:
    """Predict `texts`, with classes in the order of the corpus; labels unknown to the model get probability 0."""
    import numpy as np

    from epigram.evaluation.scoring import predict_labels
    from epigram.inference.predictor import Predictor

    predictor, labels = Predictor(model), corpus["labels"]
    said = predictor.probabilities(texts["text"].to_list())
    probabilities, cuts = np.zeros((1, len(said), len(labels))), np.ones((1, len(labels)))
    for column, label in enumerate(predictor.saved.labels):
        if label in labels:
            probabilities[0, :, labels.index(label)] = said[:, column]
            cuts[0, labels.index(label)] = predictor.saved.thresholds[column]
    return predict_labels(corpus["task"], gold(texts, labels), probabilities, cuts)


def gold(texts: pl.DataFrame, labels: list[str]) -> Any:
    """Return the gold labels: class indices (N,), or indicators (N, C) if a text can have several labels."""
    import numpy as np

    codes = dict(zip(labels, range(len(labels)), strict=True))
    if "labels" not in texts.columns:
        return texts["label"].replace_strict(codes).to_numpy()
    flat = texts.with_row_index().explode("labels").drop_nulls("labels")
    indicators = np.zeros((texts.height, len(labels)), np.int64)
    indicators[flat["index"].to_numpy(), flat["labels"].replace_strict(codes).to_numpy()] = 1
    return indicators


def _found(stages: Graph, name: str) -> Path:
    file = stages.find(name)
    if file is None:
        raise InputMissingError(f"the pipeline wrote no {name}: retraining needs one that compares systems")
    return file
