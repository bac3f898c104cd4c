"""Stages of data whose words alone have labels: the stored labels of words, and a run without an ensemble."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.evaluation.records.results import read_evaluation
from epigram.inference.predictors.open_predictor import open_predictor
from tests.support.bad_input import Workshop
from tests.support.certain import COMPARED, FILLERS, LABELS, SYSTEMS, WORD, run, run_to_augment

TAGGER = {**SYSTEMS["bilstm_tagger"], "recipe": "bilstm_tagger"}
ROOM = 7  # words that the tagger reads
SYSTEMS_OF_WORDS: dict[str, Any] = {
    "words": {**TAGGER, "train": {**TAGGER["train"], "max_length": ROOM}},
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


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Run all stages."""
    shop, encoded = Workshop(tmp_path_factory.mktemp("words")), "data/encoded/token"
    shop.params(systems=SYSTEMS_OF_WORDS, views={"token": {"tokenizer": "token"}})
    content = "".join(json.dumps(row) + "\n" for seed, split in enumerate(SIZES) for row in rows(split, seed))
    read = {"reader": "jsonl", "split": "split", "spans": "spans"}
    shop.source(content, suffix="jsonl", language="en", read=read, task="tokens")
    run_to_augment(shop)
    run(
        shop,
        ("encode", "token", "data/validated", "data/augmented", "data/pos", encoded),
        ("pretrain", "token", encoded, "data/pretrained/token"),
    )
    for name in SYSTEMS_OF_WORDS:
        models, pruned = f"data/models/{name}", f"data/pruned/{name}"
        run(
            shop,
            ("train", name, encoded, "data/pretrained/token", models),
            ("prune", name, encoded, models, pruned),
            ("evaluate", name, "data/validated", encoded, pruned, f"data/evaluated/{name}"),
        )
    run(
        shop,
        ("examine", "data/validated", "data/examined"),
        ("ensemble", "data/validated", "data/evaluated", "data/pruned", "data/ensemble"),
        ("compare", *(f"data/{name}" for name in COMPARED), "data/report"),
    )
    return shop


def test_the_stored_labels_of_words_are_those_of_the_model(shop: Workshop) -> None:
    """The words after the first seven have the default label."""
    evaluation = read_evaluation(shop.root / "data/evaluated/words")
    known, tokens = evaluation.test, evaluation.metrics.tokens
    assert known.words is not None and known.words.predictions is not None and tokens is not None
    texts = pl.read_parquet(shop.root / "data/validated/test.parquet")
    found = pl.DataFrame({"row": known.rows}).join(texts, on="row", how="left")["text"].to_list()
    said = [known.words.predictions[0][start : start + ROOM] for start in known.words.offsets[:-1]]
    answers = open_predictor(shop.root / "data/pruned/words/seed-0").predict(found)
    same = [
        tokens.labels[number] == word.label
        for numbers, answer in zip(said, answers, strict=True)
        for number, word in zip(numbers.tolist(), answer.words, strict=False)
    ]
    assert len(same) > 200 and np.mean(same) > 0.99  # evaluation and prediction may differ in batch and precision
    lengths = np.diff(known.words.offsets)
    position = np.arange(lengths.sum()) - np.repeat(known.words.offsets[:-1], lengths)
    assert known.words.predictions[0][position < ROOM].any() and not known.words.predictions[0][position >= ROOM].any()


def test_there_is_no_ensemble_and_the_run_says_why(shop: Workshop) -> None:
    assert [path.name for path in (shop.root / "data/ensemble").iterdir()] == ["ensemble.json"]
    ended = shop.stage("ensemble", "data/validated", "data/evaluated", "data/pruned", shop.out)
    assert (ended.code, ended.out) == (
        0,
        "no ensemble: an ensemble combines the labels of texts, and in these data only words have labels\n",
    )
    summary = json.loads((shop.root / "data/report/summary.json").read_text())
    assert [row["system"] for row in summary["rows"]] == ["words", "counts"]
    assert (summary["score"], summary["rows"][0]["token_f1"] > 0.5) == ("token_f1", True)


def test_the_command_marks_the_words(shop: Workshop) -> None:
    text, folder = "today some coin people under canvas", Path("data/report/chosen")
    (answer,) = open_predictor(shop.root / folder).predict([text])
    marked = " ".join(word.text if word.label == "O" else f"[{word.text}|{word.label}]" for word in answer.words)
    assert "[" in marked
    assert shop.epigram("predict", shop.root / folder, text).out.rstrip("\n").endswith(marked)
