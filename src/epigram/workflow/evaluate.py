"""Evaluation of the final models of a system; no other step reads the test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from epigram.core.arrays import Ragged
from epigram.core.errors import DataError
from epigram.core.files import read_json, sha256, write_json
from epigram.evaluation.comparison.formats import score_text
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.metrics.primary import metric_for, task_of
from epigram.evaluation.records.results import Evaluated, write_evaluation
from epigram.evaluation.settings import EvaluateSettings, MetricSetting
from epigram.evaluation.splits import GoldSplit, Target
from epigram.evaluation.tokens.word_predictions import Words
from epigram.inference.explanations.errors import explain_mistakes
from epigram.inference.predictors.dataset_batches import count_truncated
from epigram.inference.predictors.measure import combine_seeds, measure, milliseconds_per_text
from epigram.inference.predictors.predictor import Predictor
from epigram.process.display import echo
from epigram.text.dataset.encoded_dataset import View
from epigram.text.dataset.validated_corpus import ValidatedCorpus


def evaluate_models(
    name: str,
    settings: EvaluateSettings,
    metric: MetricSetting,
    seeds: Sequence[int],
    validated: Path,
    encoded: Path,
    pruned: Path,
    out: Path,
    *,
    speed: Path,
) -> None:
    """Predict dev and test with the model of every seed of the system `name`, and write the scores to `out`.

    The speed that is measured for the first seed is written to the folder `speed`, with the hash of the model's
    manifest.
    """
    view, corpus = View.load(encoded), ValidatedCorpus.read(validated)
    primary = metric_for(metric, view)
    dev, test = (gold_split(view, corpus, split) for split in (view.choosing, view.scoring))
    models = [pruned / f"seed-{seed}" for seed in seeds]
    measured = [measure(model, view) for model in models]
    evaluation = evaluate_system(
        name,
        Target(
            task=task_of(view.task),
            labels=view.labels,
            metric=primary,
            plain=measured[0].plain,
            hierarchy=corpus.hierarchy,
        ),
        seeds=seeds,
        dev=dev,
        test=test,
        dev_output=combine_seeds([m.dev for m in measured], view.split(view.choosing), dev.words),
        test_output=combine_seeds([m.test for m in measured], view.split(view.scoring), test.words),
        costs=[m.cost for m in measured],
        alone=[m.alone for m in measured],
        temperatures=[m.temperature for m in measured],
        decision=measured[0].decision,
        thresholds=np.array([m.thresholds for m in measured]),
        settings=settings,
    )
    predictor = Predictor(models[0], device="cpu")
    evaluation = locate_errors(describe_model(evaluation, predictor, view), corpus, view.scoring)
    evaluation = explain_errors(evaluation, predictor, test)
    write_evaluation(out, evaluation)
    times = {
        "ms_per_text": milliseconds_per_text(predictor, dev.texts, settings.timing_texts),
        "texts_per_second": measured[0].texts_per_second,
        "model": sha256(models[0] / "manifest.json"),
    }
    write_json(speed / f"{name}.json", times)
    scores = evaluation.metrics
    held_out = f"{view.folds} folds" if view.folds else "dev"
    on_dev, on_test = (score_text(primary.name, each.value) for each in (scores.dev_score, scores.test_score))
    echo(f"{name}: {held_out} {on_dev}{'' if view.scoring == view.choosing else f', test {on_test}'}")


def describe_model(evaluation: Evaluated, predictor: Predictor, view: View) -> Evaluated:
    """Return the evaluation with what the model is, and how many test texts it reads only the beginning of."""
    frame, about = predictor.saved.frame, str(read_json(predictor.folder / "config.json")["about"])
    truncated = count_truncated(view, frame, view.scoring)
    metrics = replace(evaluation.metrics, about=about, room=frame.room, truncated=truncated)
    return replace(evaluation, metrics=metrics)


def locate_errors(evaluation: Evaluated, corpus: ValidatedCorpus, split: str) -> Evaluated:
    """Return the evaluation with file and line of its most confident errors, which are rows of `split`."""
    errors = evaluation.metrics.mistakes
    rows = corpus.frame_of(split, np.array([each.row for each in errors], dtype=np.int64), "file", "line")
    places = zip(errors, rows["file"], rows["line"], strict=True)
    located = [replace(each, file=file, line=line) for each, file, line in places]
    return replace(evaluation, metrics=replace(evaluation.metrics, mistakes=located))


def explain_errors(evaluation: Evaluated, predictor: Predictor, test: GoldSplit) -> Evaluated:
    """Return the evaluation with the words that speak for its most confident errors, by the first seed's model."""
    metrics, texts = evaluation.metrics, dict(zip(test.rows.tolist(), test.texts, strict=True))
    mistakes, faithfulness = explain_mistakes(predictor, metrics.mistakes, texts, metrics.seeds[0].cost.flops)
    return replace(evaluation, metrics=replace(metrics, mistakes=mistakes, faithfulness=faithfulness))


def gold_split(view: View, corpus: ValidatedCorpus, name: str) -> GoldSplit:
    """Return the labels and texts of one split, in the order of the view's rows."""
    part, columns = view.split(name), ["tokens", "token_labels"] if view.token_labels else []
    rows = corpus.frame_of(name, np.array(part.rows), "text", *columns)
    return GoldSplit(
        labels=np.array(part.labels, dtype=np.int64),
        rows=np.array(part.rows),
        texts=rows["text"].to_list(),
        in_train=np.zeros(len(part), np.bool_) if part.in_train is None else np.array(part.in_train),
        words=gold_words(rows, view, corpus.folder / f"{name}.parquet") if view.token_labels else None,
        folds=view.fold_numbers() if name == "train" else None,
        columns=corpus.slice_values(name, np.array(part.rows)),
    )


def gold_words(rows: pl.DataFrame, view: View, path: Path) -> Words:
    """Return all words of the rows with their labels, including words that truncation removes.

    Raises DataError for a token label that is not in the view.
    """
    labels = rows["token_labels"].fill_null([])
    flat = labels.explode(empty_as_null=False)
    numbers = flat.replace_strict(
        view.token_labels, list(range(len(view.token_labels))), default=None, return_dtype=pl.Int64
    )
    if numbers.null_count():
        unknown = flat.filter(numbers.is_null())[0]
        raise DataError(f"{path}: token label {unknown!r} is not in the view {view.view}: run dvc repro")
    return Words(
        names=view.token_labels,
        labels=Ragged.from_lengths(
            numbers.to_numpy().astype(np.min_scalar_type(len(view.token_labels) - 1)), labels.list.len().to_numpy()
        ),
        texts=rows["tokens"].fill_null([]).to_list(),
        separator="" if view.language == "zh" else " ",
    )
