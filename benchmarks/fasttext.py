"""fastText on titles: our train stage against the fastText library with the same n-grams, sizes and threads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.configs import config_of
from benchmarks.corpora import change, encoded
from benchmarks.intervals import Right
from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import Plan, process
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.models.predict import predict
from epigram.models.recipe import ENCODERS, parse_part
from epigram.models.serialization import load as load_model
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import Split, View
from epigram.text.tokens.tokenizers import load

SYSTEM, PACKAGE = "fast_text", "fasttext"
TITLES, DEV = 116_365, 10_000  # all titles of train and of dev
RATES = (0.1, 0.25, 0.5, 1.0)  # learning rates of the library, tried on dev without timing
SETTINGS = {"titles": TITLES, "threads": 1, "learning_rates_of_the_peer": list(RATES)}
# Trains with the options in argv[1]; with a split in argv[2], writes the predicted label of each of its texts.
PROGRAM = """
import json, sys
import fasttext
model = fasttext.train_supervised("train.txt", verbose=0, **json.loads(sys.argv[1]))
if len(sys.argv) > 2:
    lines = open(sys.argv[2] + ".txt", encoding="utf-8").read().splitlines()
    labels, _ = model.predict([line.partition(" ")[2] for line in lines])
    with open("predicted.json", "w", encoding="utf-8") as file:
        json.dump([int(label.removeprefix("__label__")) for label, in labels], file)
"""


def write(path: Path, view: View, split: Split) -> None:
    """Write a split in the library's format: one title per line, its label and then its tokens, separated by spaces."""
    tokenizer = load(view.tokenizer_json)
    vocabulary = [tokenizer.id_to_token(number) for number in range(view.vocabulary)]
    rows = zip(split.ids, split.labels, strict=True)
    lines = (f"__label__{label} {' '.join(vocabulary[i] for i in text)}\n" for text, label in rows)
    path.write_text("".join(lines), encoding="utf-8")


class Library:
    """fastText library with our system's sizes and threads, on the titles of a view."""

    def __init__(self, view: View, folder: Path) -> None:
        self.view, self.folder, self.rate = view, folder, RATES[0]
        self.config: Any = parse_part(ENCODERS, RECIPES[SYSTEM].encoder, SYSTEM)
        self.threads = config_of(SYSTEM).threads
        folder.mkdir(exist_ok=True)
        for name in ("train", "dev", "test"):
            write(folder / f"{name}.txt", view, view.split(name))

    def train(self, *split: str, seed: int = 0) -> dict[str, float]:
        """Train for the library's own number of epochs in a separate process; also predict a `split` if given."""
        sizes = {"dim": self.config.width, "bucket": self.config.buckets, "wordNgrams": max(self.config.orders)}
        options = {**sizes, "thread": self.threads, "lr": self.rate, "seed": seed}
        return process(["-c", PROGRAM, json.dumps(options), *split], self.folder)

    def right(self, split: str, seed: int = 0) -> Right:
        """Train, then return whether the model is right on each text of a split, (N,)."""
        self.train(split, seed=seed)
        predicted = json.loads((self.folder / "predicted.json").read_text(encoding="utf-8"))
        return np.asarray(np.array(predicted) == self.view.split(split).labels)

    def choose_rate(self, rates: Sequence[float]) -> None:
        """Select the learning rate with the best dev accuracy."""
        scores = {}
        for self.rate in rates:
            scores[self.rate] = self.right("dev").mean()
        self.rate = max(scores, key=scores.__getitem__)


def laid_out(plan: Plan, seeds: list[int]) -> tuple[Path, View]:
    """Return a folder in which our train stage runs with these seeds, and the view of the titles."""
    data = encoded(plan, TITLES, DEV)
    folder = data.parents[2]
    change(folder, systems={SYSTEM: {"view": "token"}}, views={"token": {}}, seeds=seeds)
    return folder, View.load(data)


def train_stage(folder: Path) -> dict[str, float]:
    """Run our whole train stage."""
    arguments = ("data/encoded/token", "data/pretrained/token", f"data/models/{SYSTEM}")
    return process(["-m", "epigram.stages.train", SYSTEM, *arguments], folder)


def rows(plan: Plan) -> list[Row]:
    """Return the seconds of a whole training in a separate process."""
    folder, view = laid_out(plan, [0])
    ours, peers = partial(train_stage, folder), dict[str, Measured]()
    if find_spec(PACKAGE) is None:
        [mine] = plan.alternate(ours)
    else:
        library = Library(view, plan.scratch / "fasttext")
        library.choose_rate(plan.few(RATES))
        mine, other = plan.alternate(ours, library.train)
        peers = {"fastText library": other["s"]}
    work = f"fast_text, {len(view.split('train')):,} titles, train stage"
    return [Row(work, "s", mine["s"], peers, Reach("≤", 2, "ratio"), accuracy=SYSTEM)]


def accuracies(plan: Plan, seeds: int) -> tuple[Right, dict[str, Right]]:
    """Return whether each seed's model is right on each held-out title: ours, then the library's."""
    folder, view = laid_out(plan, list(range(seeds)))
    library = Library(view, plan.scratch / "fasttext")
    library.choose_rate(plan.few(RATES))
    peer = np.stack([library.right("test", seed) for seed in range(seeds)])
    train_stage(folder)
    mine = []
    for seed in range(seeds):
        saved = load_model(folder / f"data/models/{SYSTEM}/seed-{seed}")
        logits = predict(saved.model, batches_of(view, "test", saved.frame)).logits
        mine.append(logits.argmax(1) == view.split("test").labels)
    return np.stack(mine), {"fastText library": peer}
