"""Trials: train a system on a part of train, and measure its score on held-out texts and its cost.

python -m epigram.training.trials FOLDER

Imports the libraries, then runs the trials of FOLDER/0.json, FOLDER/1.json and so on, each as soon as its file exists,
until the process is ended. The test set is not read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path

import numpy as np
import torch

from epigram.core.config_types import validate_as
from epigram.core.files import write_json
from epigram.core.records import read_record
from epigram.models.predict import gold_labels, predict
from epigram.models.settings import System
from epigram.nn.pretrained.warm_start import find_pretrained
from epigram.process.exits import handle_errors, run_and_exit
from epigram.process.stage_process import arguments
from epigram.recipes.registry import recipe_of
from epigram.text.dataset.encoded_dataset import View, fold_folder
from epigram.training import fitters
from epigram.training.config import configure
from epigram.training.distributed.resources import resolve_threads
from epigram.training.fit_system import options_of, prepare
from epigram.training.fitters import pool
from epigram.training.linear.tfidf import load_blas
from epigram.training.system_setup import ModelSetup
from epigram.training.trials.sample import SampledView
from epigram.training.trials.spec import TrialRequest, TrialResult, TrialSpec
from epigram.training.tuning import calibrated

INTERVAL = 0.02  # seconds between two looks for the next trial
Part = tuple[SampledView, Path | None]  # a view with dev, and the folder of an encoder that was pretrained on it


def run(spec: TrialSpec, view: View, pretrained: Path) -> TrialResult:
    """Return the result of a trial on `view`; with folds, one model is trained for each of the first `spec.folds`."""
    system = validate_as(System, spec.system)
    recipe = recipe_of(spec.name, system, spec.train, checkpoint=view.checkpoint)
    config = replace(configure(spec.name, recipe, spec.train), processes=1)
    config = resolve_threads(config, recipe, view.checkpoint)
    torch.set_num_threads(int(config.threads))
    predictions, labels, taken, seconds, rows, answered = [], [], [], 0.0, 0, 0.0
    for part, encoder in _parts(spec, view, pretrained):
        began = time.perf_counter()
        setup = ModelSetup(name=spec.name, recipe=recipe, config=config, view=part, pretrained=encoder, seed=spec.seed)
        model, train, dev = prepare(setup)
        trained = fitters.KINDS[recipe.kind](model, train, dev, options_of(setup))
        ended = time.perf_counter()
        predictions.append(predict(trained.model, dev, precision=config.precision))
        answered += time.perf_counter() - ended
        labels.append(gold_labels(dev))
        seconds, rows = seconds + ended - began, rows + len(train)
        taken.append((trained.steps, len(trained.history)))
    wanted, count = np.concatenate(labels), len(predictions)
    pooled, _ = calibrated(pool(predictions), wanted)
    steps, evaluations = np.mean(taken, 0).tolist()
    return TrialResult(
        score=pooled.score(wanted),
        loss=pooled.loss(wanted),
        rows=rows // count,
        held_out=len(wanted) // count,
        seconds=seconds / count,
        ms_per_text=1000 * answered / len(wanted),
        steps=steps,
        evaluations=evaluations,
    )


def load_libraries() -> None:
    """Import what the linear fits import when they begin, so that it is not measured."""
    load_blas()
    import sklearn.linear_model
    import sklearn.svm  # noqa: F401


def _parts(spec: TrialSpec, view: View, pretrained: Path) -> Iterator[Part]:
    """Yield the views to train on: the whole view, or its first folds."""
    sampled = SampledView.of(view, spec.rows, spec.held_out)
    encoder = find_pretrained(pretrained, view.tokenizer_json)
    if not view.folds:
        yield sampled, encoder
        return
    for number in range(min(spec.folds, view.folds)):
        fold = sampled.fold(number)
        yield fold, encoder and find_pretrained(fold_folder(pretrained, number), fold.tokenizer_json)


def requests(folder: Path) -> Iterator[TrialRequest]:
    """Yield the requested trials, each as soon as its file exists."""
    for number in count():
        file = folder / f"{number}.json"
        while not file.is_file():
            time.sleep(INTERVAL)
        yield read_record(TrialRequest, file)


@handle_errors
def main() -> None:
    """Run one trial after another."""
    (folder,) = map(Path, arguments("FOLDER"))
    load_libraries()
    for asked in requests(folder):
        write_json(asked.out, asdict(run(asked.spec, View.load(asked.encoded), asked.pretrained)))


if __name__ == "__main__":
    run_and_exit(main)
