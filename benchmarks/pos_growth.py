"""What the part-of-speech table is worth to Transformer-F: accuracy on held-out texts with four sets of weights.

    EPIGRAM_MIRROR=FOLDER python -m benchmarks.pos_growth [--sources mr,ced] [--seeds 3] [--epochs 20] [--tiny]

* constant: every token weighs 1
* tokens: each token has the weight of its own row in the package's table; a Chinese token is a character
* package: each token has the weight of its word in the package's table
* grown: the same with version 2 of the table, which also has the words of all training texts

Prints the number of training tokens whose weight differs from `package`, and the accuracy of each set of weights with
its difference from `package` and a 95% interval.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.configs import config_of
from benchmarks.corpora import chain, change, download
from benchmarks.intervals import Right, difference
from epigram.evaluation.metrics.primary import metric_for
from epigram.inference.predictors.dataset_batches import batches_of, data_spec_of, template_of
from epigram.models.predict import predict
from epigram.nn.layers.attention.pos_weighting import token_weights
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.text.pos.pos_table import build, save
from epigram.text.pos.pos_versions import find_words, publish
from epigram.text.settings import PosTableSettings
from epigram.training.config import TrainingConfig
from epigram.training.fit_system import fit_system
from epigram.training.system_setup import ModelSetup

SYSTEM, SOURCES = "transformer_f", "mr,ced,chnsenticorp"
ARMS = ("package", "constant", "tokens", "grown")
VALIDATED, AUGMENTED, VERSIONS = "data/validated", "data/augmented", "data/pos_versions"


def prepared(scratch: Path, source: str) -> dict[str, View]:
    """Return the token view of a source for each set of weights."""
    folder = scratch / source
    (folder / "data").mkdir(parents=True)
    change(folder, views={"token": {"tokenizer": "token"}}, systems={SYSTEM: {"view": "token"}})
    download(source, folder / "data/raw")
    validate, augment = ("validate", "data/raw", VALIDATED), ("augment", VALIDATED, AUGMENTED)
    chain(folder, validate, augment, ("pos_table", VALIDATED, VERSIONS, "data/pos"))
    publish(folder / VERSIONS, find_words(folder / VALIDATED, folder / "data/pos", folder))
    for arm, settings in (("package", PosTableSettings()), ("constant", PosTableSettings(function=1.0))):
        (folder / f"data/pos-{arm}").mkdir()
        save(build(settings), folder / f"data/pos-{arm}", {})
    tables = ("package", "constant", "grown")
    encode = (("encode", "token", VALIDATED, AUGMENTED, f"data/pos-{arm}", f"data/encoded-{arm}") for arm in tables)
    chain(folder, ("pos_table", VALIDATED, VERSIONS, "data/pos-grown"), *encode)
    views = {arm: View.load(folder / f"data/encoded-{arm}") for arm in tables}
    return {**views, "tokens": replace(views["package"], pos_words=None)}


def weights(view: View, config: TrainingConfig) -> np.ndarray[Any, Any]:
    """Return the weight of every token of the training texts."""
    model: Any = RECIPES[SYSTEM].build(data_spec_of(view, config.max_length), SYSTEM)
    texts = batches_of(view, "train", template_of(view, config.max_length, model))
    found = []
    for rows in texts.in_order(256, 65_536):
        tokens = texts.gather(rows)
        weight = token_weights(model.encoder.pos_weight, tokens)
        assert weight is not None
        found.append(weight[tokens.valid].numpy())
    return np.concatenate(found)


def right(view: View, config: TrainingConfig, seed: int) -> Right:
    """Train the system and return whether it is right on each held-out text, (N,)."""
    model = fit_system(
        ModelSetup(
            name=SYSTEM, recipe=RECIPES[SYSTEM], config=config, view=view, metric=metric_for("auto", view), seed=seed
        )
    ).model
    frame, device = template_of(view, config.max_length, model), next(model.parameters()).device
    logits = predict(model, batches_of(view, "test", frame, device)).logits
    return np.asarray(logits.argmax(1) == view.split("test").labels)


def compared(scratch: Path, source: str, seeds: int, config: TrainingConfig) -> dict[str, Any]:
    """Return the accuracies on a source, and how many training tokens have another weight than with the package."""
    views = prepared(scratch, source)
    base = weights(views["package"], config)
    changed = {arm: int((weights(views[arm], config) != base).sum()) for arm in ARMS[1:]}
    found = {arm: np.stack([right(views[arm], config, seed) for seed in range(seeds)]) for arm in ARMS}
    ours = found.pop("package")
    return {"tokens": len(base), "changed": changed, **difference(source, f"{SYSTEM}, held-out texts", ours, found)}


def main() -> None:
    """Measure and print one line of JSON per source."""
    parser = argparse.ArgumentParser(description="Measure what the part-of-speech table is worth.")
    parser.add_argument("--sources", default=SOURCES, help="comma-separated names of files in data/sources")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=None, help="maximum number of epochs; default: the recipe's")
    parser.add_argument("--tiny", action="store_true", help="one seed and one epoch on pocket_zh, to see that it works")
    asked = parser.parse_args()
    sources, seeds, epochs = asked.sources.split(","), asked.seeds, asked.epochs
    if asked.tiny:
        sources, seeds, epochs = ["pocket_zh"], 1, 1
    config = config_of(SYSTEM, **({} if epochs is None else {"epochs": epochs}))
    with TemporaryDirectory() as scratch:
        for source in sources:
            print(json.dumps(compared(Path(scratch), source, seeds, config), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
