"""Corpora in which one word decides the label, so that the right prediction is known, and the stages for them.

The label order differs from the alphabetical order, the order of first rows and the order of frequency, so that
predictions with names in any other order fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.support.bad_input import Workshop

LABELS = ["money", "arts", "sport"]
WORD = {"money": "coin", "arts": "canvas", "sport": "goal"}  # the word that decides each label
ROUND = ["sport", "arts", "arts", "money", "arts", "sport", "arts"]  # of seven rows, arts has 4, sport 2, money 1
FILLERS = ["today", "again", "about", "some", "people", "under", "their", "city", "with", "many"]
SIZES = {"train": 168, "dev": 21, "test": 42}
COMPARED = ("validated", "examined", "evaluated", "ensemble", "pruned")
SYSTEMS: dict[str, Any] = {
    "textcnn": {
        "view": "token",
        "encoder": {"embedding": 16, "filters": 16, "dropout": 0.0},
        "head": {"dropout": 0.0},
        "train": {"epochs": 12, "learning_rate": 0.02, "batch_size": 16},
    },
    "bilstm_tagger": {
        "view": "token",
        "encoder": {"width": 16, "dropout": 0.0},
        "head": {"dropout": 0.0},
        "train": {"epochs": 8, "learning_rate": 0.03, "batch_size": 16},
    },
    "transformer": {
        "view": "token",
        "encoder": {"width": 16, "hidden": 16, "depth": 3, "heads": 2, "dropout": 0.0},
        "head": {"dropout": 0.0, "pool": "max"},
        "train": {"epochs": 15, "learning_rate": 0.01, "batch_size": 16},
    },
    "tfidf_svm": {"view": "token", "model": {"orders": [1]}},
    "random": {"view": "token"},
}


def text_of(words: Iterable[str], draw: np.random.Generator) -> str:
    """Return five filler words with `words` inserted among them."""
    texts = [str(word) for word in draw.choice(FILLERS, 5)]
    for word in words:
        texts.insert(int(draw.integers(0, len(texts) + 1)), word)
    return " ".join(texts)


def one_label(split: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield rows with one label; the text has the label's word, which is also its span."""
    draw = np.random.default_rng(seed)
    for n in range(SIZES[split]):
        label = ROUND[n % len(ROUND)]
        text = text_of([WORD[label]], draw)
        yield {"text": text, "label": label, "split": split, "spans": [WORD[label]]}


def several_labels(split: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield rows with one or two labels; the text has their words."""
    draw = np.random.default_rng(seed)
    for n in range(SIZES[split]):
        labels = [["sport", "arts"], ["money"], ["sport"], ["arts", "money"]][n % 4]
        yield {"text": text_of([WORD[label] for label in labels], draw), "label": labels, "split": split}


def lines(rows: Any) -> str:
    """Return the three splits of a corpus as JSON lines."""
    found = [row for seed, split in enumerate(SIZES) for row in rows(split, seed)]
    return "".join(json.dumps(row) + "\n" for row in found)


def prepared(
    shop: Workshop,
    content: str,
    systems: Sequence[str],
    *,
    spans: bool = False,
    prune: dict[str, Any] | None = None,
    **source: Any,
) -> Workshop:
    """Run all stages before train in `shop`; `source` has further keys of the file's description in data/sources."""
    chosen = {name: SYSTEMS[name] for name in systems}
    shop.params(systems=chosen, views={"token": {"tokenizer": "token"}}, prune=prune or {})
    read = {"reader": "jsonl", "split": "split", **({"spans": "spans"} if spans else {})}
    shop.source(content, suffix="jsonl", language="en", read=read, **{"labels": LABELS, **source})
    run_to_train(shop)
    return shop


def without_spans(shop: Workshop) -> None:
    """Write the source `reviews`: the corpus with one label, without spans."""
    rows = [row for seed, split in enumerate(SIZES) for row in one_label(split, seed)]
    content = "".join(json.dumps({key: row[key] for key in ("text", "label", "split")}) + "\n" for row in rows)
    read = {"reader": "jsonl", "split": "split"}
    shop.source(content, suffix="jsonl", language="en", read=read, labels=LABELS)


def run_to_augment(shop: Workshop) -> None:
    """Run the stages before encode, on the source `reviews`."""
    run(
        shop,
        ("download", "data/sources/reviews.yaml", "data/raw"),
        ("validate", "data/raw", "data/validated"),
        ("pos_table", "data/validated", "data/pos_versions", "data/pos"),
        ("augment", "data/validated", "data/augmented"),
    )


def run_to_train(shop: Workshop) -> None:
    """Run all stages before train, on the source `reviews` and the view `token`."""
    run_to_augment(shop)
    run(
        shop,
        ("encode", "token", "data/validated", "data/augmented", "data/pos", "data/encoded/token"),
        ("pretrain", "token", "data/encoded/token", "data/pretrained/token"),
    )


def train(shop: Workshop, name: str) -> None:
    """Train the system `name`."""
    run(shop, ("train", name, "data/encoded/token", "data/pretrained/token", f"data/models/{name}"))


def prune(shop: Workshop, name: str) -> None:
    """Prune the trained system `name`."""
    run(shop, ("prune", name, "data/encoded/token", f"data/models/{name}", f"data/pruned/{name}"))


def evaluate(shop: Workshop, name: str) -> None:
    """Evaluate the pruned system `name`."""
    pruned, out = f"data/pruned/{name}", f"data/evaluated/{name}"
    run(shop, ("evaluate", name, "data/validated", "data/encoded/token", pruned, out))


def run_systems(shop: Workshop, names: Sequence[str]) -> None:
    """Train, prune and evaluate the systems `names`."""
    for name in names:
        for stage in (train, prune, evaluate):
            stage(shop, name)


def compare(shop: Workshop) -> None:
    """Examine the data, combine and compare the evaluated systems, and write the report to `data/report`."""
    run(
        shop,
        ("examine", "data/validated", "data/examined"),
        ("ensemble", "data/validated", "data/evaluated", "data/pruned", "data/ensemble"),
        ("compare", *(f"data/{name}" for name in COMPARED), "data/report"),
    )


def run(shop: Workshop, *steps: tuple[str, ...]) -> None:
    """Run stages, each by its name and arguments; fail if one fails."""
    for step in steps:
        ended = shop.stage(*step)
        assert ended.code == 0, ended.err or ended.out
