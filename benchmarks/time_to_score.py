"""Seconds until a fine-tuned MiniLM has an accuracy on dev: ours against transformers' Trainer.

    EPIGRAM_MIRROR=FOLDER python -m benchmarks.time_to_score [--source mr] [--seeds 3] [--arms bert,quick]

The wanted accuracy is the Trainer's mean after three epochs less 0.3 points. Each side has the best of three learning
rates, by the accuracy at the end of the first seed's training. The wanted accuracy is reached at the first of two
evaluations in a row that have it. Both sides evaluate all of dev six times an epoch, and the clock includes these
evaluations and the copies of the best weights. On both sides, the accuracy on test is that of the weights that are best
on dev. Prints one line of JSON for each training, and a summary.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import minilm, trainer_peer
from benchmarks.batches import MAX_TOKENS, texts_of
from benchmarks.configs import config_of
from benchmarks.corpora import checkpoint, staged
from benchmarks.timing import cores
from epigram.evaluation.metrics.primary import TASK_METRIC
from epigram.inference.predictors.dataset_batches import batches_of, data_spec_of, template_of
from epigram.models.predict import predict
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.training.frozen.fitted_head import fit_head
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.base import Evaluation
from epigram.training.objectives.classification import Classification

BATCH, EPOCHS, EVALUATIONS, LESS = 32, 3, 6, 0.003
RATES = (5e-5, 1e-4, 2e-4)
ARMS: dict[str, dict[str, Any]] = {  # head and training of the system `bert`
    "bert": {"train": {"epochs": EPOCHS}},
    "quick": {
        "head": {"pool": "mean", "layers": 4, "dropout": 0.0},
        "train": {"epochs": 2, "layer_decay": 0.8, "fitted_head": True},
    },
}


class Curve(NamedTuple):
    """Seconds since the start and accuracy of each evaluation, and the accuracy on test."""

    seconds: list[float]
    accuracy: list[float]
    test: float

    def reached(self, wanted: float) -> float | None:
        """Return the seconds of the first of two evaluations in a row that are at least `wanted`."""
        twice = (low for low, (one, two) in enumerate(pairwise(self.accuracy)) if min(one, two) >= wanted)
        place = next(twice, None)
        return None if place is None else self.seconds[place]


class Timed(Classification):
    """Classification that notes when each evaluation ends."""

    def start(self) -> None:
        """Start the clock."""
        self.began, self.seconds, self.accuracy = perf_counter(), list[float](), list[float]()

    def evaluate(self, model: Any, *, adapt: bool) -> Evaluation | None:
        """Return the evaluation."""
        found = super().evaluate(model, adapt=adapt)
        self.seconds.append(perf_counter() - self.began)
        self.accuracy.append(0.0 if found is None else found.accuracy)
        return found


def ours(view: View, arm: str, rate: float, seed: int) -> Curve:
    """Return the curve of one training of ours."""
    changes = ARMS[arm]
    limits = {"batch_size": BATCH, "max_length": minilm.LENGTH, "max_tokens": MAX_TOKENS}
    training = {**limits, "evaluations": EVALUATIONS, "patience": 1_000, "learning_rate": rate, **changes["train"]}
    config = config_of(minilm.SYSTEM, view.checkpoint, **training)
    torch.manual_seed(seed)
    recipe = RECIPES[minilm.SYSTEM].changed(head=changes.get("head", {}))
    model: Any = recipe.build(data_spec_of(view, minilm.LENGTH), minilm.SYSTEM)
    train, dev = (texts_of(view, view.split(name), minilm.LENGTH) for name in ("train", "dev"))
    objective = Timed(train, dev, config)
    objective.start()
    if config.fitted_head:
        fit_head(model, train, config.class_weight, TASK_METRIC)
    Trainer(model, objective, seed=seed).run()
    texts = batches_of(view, "test", template_of(view, minilm.LENGTH, model))
    test = predict(model, texts).score(view.split("test").labels)
    return Curve(objective.seconds, objective.accuracy, test)


def theirs(view: View, rate: float, seed: int, folder: Path) -> Curve:
    """Return the curve of one training of the Trainer.

    The weights with the best accuracy are kept in memory, as in our loop: with `load_best_model_at_end`, the Trainer
    would write a checkpoint with the optimizer's state at every evaluation.
    """
    from transformers import TrainerCallback
    from transformers.trainer_utils import IntervalStrategy

    began, seconds, accuracy, best = perf_counter(), list[float](), list[float](), dict[str, Any]()

    class Clock(TrainerCallback):
        """Callback that notes when each evaluation ends, and copies the best weights."""

        def on_evaluate(self, *_: Any, **known: Any) -> None:
            """Note the time and the accuracy."""
            found = known["metrics"]["eval_accuracy"]
            if found > max(accuracy, default=-1.0):
                best.update(copy.deepcopy(known["model"].state_dict()))
            seconds.append(perf_counter() - began)
            accuracy.append(found)

    rows = {name: trainer_peer.examples(view, view.split(name)) for name in ("train", "dev", "test")}
    steps = -(-len(rows["train"]) // BATCH)
    made = trainer_peer.trainer(
        view,
        minilm.theirs(view, seed),
        rows["train"],
        trainer_peer.Settings(grouped=True, bf16=minilm.FAST == "bf16"),
        folder,
        num_train_epochs=EPOCHS,
        seed=seed,
        learning_rate=rate,
        warmup_steps=round(0.1 * EPOCHS * steps),
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=64,
        eval_steps=max(1, steps // EVALUATIONS),
    )
    by_length = [sorted(rows[name], key=lambda row: len(row["input_ids"])) for name in ("dev", "test")]
    made.args.eval_strategy = IntervalStrategy.STEPS
    made.eval_dataset, made.compute_metrics = by_length[0], right
    made.add_callback(Clock)
    began = perf_counter()
    made.train()
    made.remove_callback(Clock)
    made.model.load_state_dict(best)
    return Curve(seconds, accuracy, made.evaluate(by_length[1])["eval_accuracy"])


def right(predicted: Any) -> dict[str, float]:
    """Return the accuracy of the Trainer's predictions."""
    return {"accuracy": float((np.argmax(predicted.predictions, 1) == predicted.label_ids).mean())}


def told(name: str, seed: int, curve: Curve) -> Curve:
    """Print a training."""
    found = {"seconds": [round(each, 1) for each in curve.seconds], "dev": [round(each, 4) for each in curve.accuracy]}
    print(json.dumps({"tool": name, "seed": seed, **found, "test": round(curve.test, 4)}), flush=True)
    return curve


def summary(curves: Sequence[Curve], wanted: float) -> dict[str, Any]:
    """Return the mean seconds and how many trainings reached the accuracy, and the mean accuracy on test."""
    reached = [each.reached(wanted) for each in curves]
    known = [each for each in reached if each is not None]
    seconds = round(mean(known), 1) if known else None
    test = round(mean(each.test for each in curves), 4)
    return {"reached": f"{len(known)} of {len(reached)}", "seconds": seconds, "test": test}


def trained(name: str, train: Callable[[float, int], Curve], seeds: int) -> list[Curve]:
    """Return the trainings of one side, at the rate with the best accuracy at the end of the first seed's training."""

    def one(rate: float, seed: int) -> Curve:
        return told(f"{name}, {rate:g}", seed, train(rate, seed))

    first = {rate: one(rate, 0) for rate in RATES}
    best = max(first, key=lambda rate: first[rate].accuracy[-1])
    return [first[best], *(one(best, seed) for seed in range(1, seeds))]


def compare(view: View, seeds: int, arms: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return the summary of each side."""
    peer = trained("Trainer", lambda rate, seed: theirs(view, rate, seed, folder), seeds)
    wanted = mean(each.accuracy[-1] for each in peer) - LESS
    found = {arm: trained(arm, partial(ours, view, arm), seeds) for arm in arms}
    sides = {"Trainer": peer, **found}
    return {"wanted": round(wanted, 4), **{name: summary(curves, wanted) for name, curves in sides.items()}}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the seconds until an accuracy on dev.")
    parser.add_argument("--source", default="mr", help="name of a file in data/sources, with English texts")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--arms", default=",".join(ARMS), help=f"of {', '.join(ARMS)}")
    asked = parser.parse_args()
    torch.set_num_threads(cores())
    with TemporaryDirectory() as scratch:
        settings = {"tokenizer": "wordpiece", "checkpoint": checkpoint()}
        view = View.load(staged(Path(scratch), asked.source, "wordpiece", **settings))
        print(json.dumps({"source": asked.source, **compare(view, asked.seeds, asked.arms.split(","), Path(scratch))}))


if __name__ == "__main__":
    main()
