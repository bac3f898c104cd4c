"""Accuracy on held-out texts after equal epochs on equal texts, for each training rate, with three seeds per side.

`make bench-accuracy` runs it and prints every rate with its accuracy. Peers that differ from another peer only in
speed, for example in the number of dataloader workers, are left out, because their accuracy is the same. Both sides
keep the weights of the last step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks import export, fasttext, finetune, minilm, pruning, trainer_peer, training
from benchmarks.batches import texts_of
from benchmarks.configs import config_of
from benchmarks.corpora import chosen, drawn, encoded
from benchmarks.corpora import minilm as minilm_view
from benchmarks.intervals import Right, difference
from benchmarks.plain_loop import PADDINGS, Settings, examples_of, predictions
from benchmarks.plain_loop import train as train_plain
from benchmarks.timing import Plan
from epigram.inference.predictors.dataset_batches import batches_of, template_of
from epigram.models.precision import has_fast_bf16
from epigram.models.predict import predict
from epigram.text.dataset.encoded_dataset import Split, View
from epigram.training.config import TrainingConfig
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.classification import Classification

SEEDS = 3
TITLES, EPOCHS, REVIEWS = 5_000, 2, 4_000
SETTINGS = {
    "training": {"seeds": SEEDS, "titles": TITLES, "epochs": EPOCHS},
    "finetune": {"seeds": SEEDS, "texts": REVIEWS, "epochs": 1},
    "fasttext": {"seeds": SEEDS, "titles": fasttext.TITLES, "epochs": "the recipe's, the library's"},
    "export": {"seeds": 1, "texts": export.TEXTS, "epochs": 1},
    "pruning": {"seeds": pruning.SEEDS, **pruning.SETTINGS},
}
Comparisons = list[dict[str, Any]]


class LastWeights(Classification):
    """Objective that keeps the weights of the last step, as the peers do, instead of those that score best on dev."""

    keeps_last = True


def our_right(model: Any, view: View, train: Split, config: TrainingConfig, seed: int) -> Right:
    """Train a model, then return whether it is right on each held-out text, (N,)."""
    texts = texts_of(view, train, config.max_length)
    one = texts_of(view, chosen(train, [0]), config.max_length)  # a dev set is required; LastWeights ignores its score
    torch.manual_seed(seed)
    objective = LastWeights(texts, one, config)
    Trainer(model, objective, seed=seed).run()
    logits = predict(model, batches_of(view, "test", template_of(view, config.max_length))).logits
    return np.asarray(logits.argmax(1) == view.split("test").labels)


def small_system(plan: Plan, name: str, view: View) -> dict[str, Any]:
    """Compare our loop with the plain one, in random batches and in batches of similar length."""
    config = config_of(name, epochs=EPOCHS, max_length=training.LENGTH, patience=EPOCHS + 1)
    train, test = drawn(view.split("train"), plan.size(TITLES)), view.split("test")
    examples, held_out = examples_of(train), examples_of(test)
    bf16 = has_fast_bf16("cpu")

    def peer(how: Settings, seed: int) -> Right:
        model = training.plain(name, view, seed)
        train_plain(model, examples, view.pad_id, config, how)
        return np.asarray(predictions(model, held_out, view.pad_id, config, how) == test.labels)

    ours = [our_right(training.fresh(name, view, seed), view, train, config, seed) for seed in range(SEEDS)]
    kinds = [Settings(padding, bf16) for padding in PADDINGS]
    peers = {how.name: np.stack([peer(how, seed) for seed in range(SEEDS)]) for how in kinds}
    about = f"{view.corpus}, {len(train):,} training titles, {EPOCHS} epochs"
    return difference(name, about, np.stack(ours), peers)


def small_systems(plan: Plan) -> Comparisons:
    """Compare every system of the family `training`."""
    view = View.load(encoded(plan, training.TITLES, training.TITLES))
    return [small_system(plan, name, view) for name in training.SYSTEMS]


def fine_tuning(plan: Plan) -> Comparisons:
    """Compare MiniLM trained by our loop and by the Trainer, in random batches and in batches of similar length."""
    view = finetune.prepared(plan)
    config, test = finetune.settings(view), view.split("test")
    train = drawn(view.split("train"), plan.size(REVIEWS))
    examples, held_out = (trainer_peer.examples(view, part) for part in (train, test))

    def peer(how: trainer_peer.Settings, seed: int) -> Right:
        more = {**finetune.arguments(view), "seed": seed}
        made = trainer_peer.trainer(view, minilm.theirs(view, seed), examples, how, plan.scratch, **more)
        made.train()
        return np.asarray(trainer_peer.predicted(made, held_out) == test.labels)

    ours = [our_right(minilm.ours(view, seed), view, train, config, seed) for seed in range(SEEDS)]
    kinds = [how for how in finetune.peers() if not how.workers]
    peers = {how.name: np.stack([peer(how, seed) for seed in range(SEEDS)]) for how in kinds}
    about = f"{view.corpus}, {len(train):,} training texts, one epoch"
    return [difference("minilm", about, np.stack(ours), peers)]


def fast_text(plan: Plan) -> Comparisons:
    """Compare our train stage with the fastText library, each with its own number of epochs."""
    ours, peers = fasttext.accuracies(plan, SEEDS)
    about = f"{fasttext.TITLES:,} training titles, whole trainings"
    return [difference(fasttext.SYSTEM, about, ours, peers)]


def int8(plan: Plan) -> Comparisons:
    """Compare the int8 graph with our model in its default precision."""
    view = View.load(minilm_view(plan.scratch))
    models, texts = export.forms(plan, view), batches_of(view, "test", template_of(view, minilm.LENGTH))
    found = export.predictions({kind: models[kind] for kind in ("int8", export.ANSWERS)}, texts)
    return [export.compared(found, view.split("test").labels, f"{view.corpus}, fine-tuned MiniLM")]


def pruned(plan: Plan) -> Comparisons:
    """Compare pruned Transformers with the full ones after the same fine-tuning."""
    return [pruning.compared(data, config) for data, config in pruning.sources(plan)]


FAMILIES: dict[str, Callable[[Plan], Comparisons]] = {
    "training": small_systems,
    "finetune": fine_tuning,
    "fasttext": fast_text,
    "export": int8,
    "pruning": pruned,
}
