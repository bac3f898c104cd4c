"""One trial: train a system on a part of train, and measure its score on held-out texts and its cost.

python -m epigram.training.trials SPEC ENCODED PRETRAINED OUT

Reads SPEC and writes OUT, both JSON. The test set is not read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from epigram.core.config_types import validate_as
from epigram.core.errors import arguments, handle_errors, run_and_exit
from epigram.core.files import write_json
from epigram.models.predict import gold_labels, predict
from epigram.models.registry import recipe_of
from epigram.models.settings import System
from epigram.nn.pretrained.warm_start import find_pretrained
from epigram.text.encoded_dataset import View, fold_folder
from epigram.training import fitters
from epigram.training.config import configure
from epigram.training.tfidf import load_blas
from epigram.training.threads import resolve_threads
from epigram.training.train_system import prepare
from epigram.training.trained import FitOptions, pool
from epigram.training.trials.sample import SampledView
from epigram.training.trials.spec import TrialResult, TrialSpec
from epigram.training.tuning import calibrated

Part = tuple[SampledView, Path | None]  # a view with dev, and the folder of an encoder that was pretrained on it


def run(spec: TrialSpec, view: View, pretrained: Path) -> TrialResult:
    """Return the result of a trial on `view`; with folds, one model is trained for each of the first `spec.folds`."""
    path, system = f"systems.{spec.name}", validate_as(System, spec.system)
    recipe = recipe_of(spec.name, system, checkpoint=view.checkpoint)
    config = resolve_threads(configure(spec.name, recipe), recipe, view.checkpoint)
    torch.set_num_threads(int(config.threads))
    load_libraries()
    predictions, labels, seconds, rows, answered = [], [], 0.0, 0, 0.0
    for part, encoder in _parts(spec, view, pretrained):
        began = time.perf_counter()
        model, train, dev = prepare(recipe, config, part, spec.seed, path, encoder)
        options = FitOptions(config=config, path=path, seed=spec.seed, rate=config.learning_rate)
        trained = fitters.KINDS[recipe.kind](model, train, dev, options)
        ended = time.perf_counter()
        predictions.append(predict(trained.model, dev, precision=config.precision))
        answered += time.perf_counter() - ended
        labels.append(gold_labels(dev))
        seconds, rows = seconds + ended - began, rows + len(train)
    wanted, count = np.concatenate(labels), len(predictions)
    pooled, _ = calibrated(pool(predictions), wanted)
    return TrialResult(
        score=pooled.score(wanted),
        loss=pooled.loss(wanted),
        rows=rows // count,
        seconds=seconds / count,
        ms_per_text=1000 * answered / len(wanted),
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


@handle_errors
def main() -> None:
    """Read the trial, run it and write its result."""
    spec, encoded, pretrained, out = map(Path, arguments("SPEC", "ENCODED", "PRETRAINED", "OUT"))
    write_json(out, asdict(run(TrialSpec.read(spec), View.load(encoded), pretrained)))


if __name__ == "__main__":
    run_and_exit(main)
