"""A run on data with labels of words alone: two taggers, whose views have different tokens, and their ensemble."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.bad_input import Workshop
from tests.support.certain import COMPARED, FILLERS, LABELS, SYSTEMS, WORD, run, run_to_augment

VIEWS = ["token", "wordpiece"]
TAGGER = {**SYSTEMS["bilstm_tagger"], "recipe": "bilstm_tagger"}
ROOM = 7  # words that the system `words` reads
SYSTEMS_OF_WORDS: dict[str, Any] = {
    "words": {**TAGGER, "train": {**TAGGER["train"], "max_length": ROOM}},
    "pieces": {**TAGGER, "view": "wordpiece", "train": {**TAGGER["train"], "epochs": 12}},
    "counts": {"recipe": "tfidf_svm", "view": "token", "model": {"orders": [1]}},
}
SIZES = {"train": 150, "dev": 120, "test": 40}


def rows(split: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield texts of six to nine words, some of which are the words of labels; a third of these have a random label."""
    draw = np.random.default_rng(seed)
    for _ in range(SIZES[split]):
        labels = {WORD[LABELS[n]]: LABELS[n] for n in draw.integers(0, 3, int(draw.integers(0, 4)))}
        words = [str(word) for word in draw.permutation([*draw.choice(FILLERS, 6), *labels])]
        begins = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
        spans = [
            [begin, begin + len(word), labels[word] if draw.random() < 2 / 3 else LABELS[int(draw.integers(3))]]
            for begin, word in zip(begins, words, strict=False)
            if word in labels
        ]
        yield {"text": " ".join(words), "label": "", "split": split, "spans": spans}


def finished(folder: Path) -> Workshop:
    """Run all stages."""
    shop = Workshop(folder)
    views = {view: {"tokenizer": view} for view in VIEWS}
    shop.params(systems=SYSTEMS_OF_WORDS, views=views, encode={"wordpiece_vocabulary": 60})
    content = "".join(json.dumps(row) + "\n" for seed, split in enumerate(SIZES) for row in rows(split, seed))
    read = {"reader": "jsonl", "split": "split", "spans": "spans"}
    shop.source(content, suffix="jsonl", language="en", read=read, task="tokens")
    run_to_augment(shop)
    for view in VIEWS:
        encoded = f"data/encoded/{view}"
        run(
            shop,
            ("encode", view, "data/validated", "data/augmented", "data/pos", encoded),
            ("pretrain", view, encoded, f"data/pretrained/{view}"),
        )
    for name, system in SYSTEMS_OF_WORDS.items():
        _run_system(shop, name, system["view"])
    run(
        shop,
        ("examine", "data/validated", "data/examined"),
        ("ensemble", "data/validated", "data/evaluated", "data/pruned", "data/ensemble"),
        ("compare", *(f"data/{name}" for name in COMPARED), "data/report"),
    )
    return shop


def _run_system(shop: Workshop, name: str, view: str) -> None:
    encoded, models, pruned = f"data/encoded/{view}", f"data/models/{name}", f"data/pruned/{name}"
    run(
        shop,
        ("train", name, encoded, f"data/pretrained/{view}", models),
        ("prune", name, encoded, models, pruned),
        ("evaluate", name, "data/validated", encoded, pruned, f"data/evaluated/{name}"),
    )
