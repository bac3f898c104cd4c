"""Small validated corpora for tests of tokenization and encoding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

from epigram.text.dataset.encoded_dataset import View
from epigram.text.dataset.validated_corpus import SPLITS, ValidatedCorpus
from epigram.text.settings import AugmentSettings, EncodeSettings, ViewSettings
from epigram.workflow.augment import write_prompt
from epigram.workflow.encode import encode_view

settings.register_profile("unhurried", deadline=None)  # no deadline, so that a busy machine causes no failure
settings.load_profile("unhurried")

ZH = {
    "train": [("这家店的菜真好吃", "pos"), ("送得太慢了，饭都凉了", "neg"), ("着实不错吗？OK 3.5分", "pos")],
    "dev": [("味道一般般", "neg"), ("好吃！", "pos")],
    "test": [("😀", "pos"), ("凉了", "neg")],
}
EN = {
    "train": [("It's a good film, isn't it?", "pos"), ("I don't like the slow plot", "neg"), ("GREAT cast", "pos")],
    "dev": [("the plot", "neg"), ("unheardof wonder", "pos")],
    "test": [("good", "pos"), ("slow", "neg")],
}

PIECES = [
    "你",
    "的",
    "a",
    "Z",
    "9",
    " ",
    "\t",
    "\n",
    "\r\n",
    "\u3000",
    "，",
    "[MASK]",
    "[",
    "]",
    "n't",
    "’s",
    "don't",
    "3.5",
]
PIECES += [
    "👨‍👩‍👧",
    "❤️",
    "😀",
    "𠙶",
    "Ａ",
    "ﬁ",
    "é",
    "e\u0301",
    "İ",
    "ς",
    "\x00",
    "\x85",
    "\u200b",
    "\ufeff",
    "ß",
    "##a",
]
nasty = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=20).map("".join)


def validated(
    folder: Path,
    language: str,
    rows: dict[str, list[tuple[Any, ...]]],
    labels: Sequence[str] = ("neg", "pos"),
    task: str = "single",
    token_labels: Sequence[str] = (),
) -> ValidatedCorpus:
    """Write a validated corpus as the validate stage does, and read it.

    A row is a text and its label or labels; with `token_labels`, also its words and their labels.
    """
    folder.mkdir(parents=True, exist_ok=True)
    column = ("label", pl.String) if task == "single" else ("labels", pl.List(pl.String))
    start = 0
    for split in SPLITS:
        schema = dict([("text", pl.String), column])
        if token_labels:
            schema |= {"tokens": pl.List(pl.String), "token_labels": pl.List(pl.String)}
        frame = pl.DataFrame(rows[split], schema=schema, orient="row")
        frame = frame.with_columns(row=pl.int_range(start, start + frame.height, dtype=pl.Int64))
        frame = frame.with_columns(file=pl.lit("tiny.csv"), line=pl.int_range(2, frame.height + 2, dtype=pl.Int64))
        start += frame.height
        if split != "train":
            frame = frame.with_columns(in_train=pl.col("text").is_in([row[0] for row in rows["train"]]))
        frame.write_parquet(folder / f"{split}.parquet")
    about = ValidatedCorpus(
        name="tiny",
        language=language,
        task=task,
        labels=list(labels),
        token_labels=list(token_labels),
        tokens_only=False,
    )
    about.write(folder)
    return ValidatedCorpus.read(folder)


def encoded_in(
    root: Path,
    pos: Path,
    rows: dict[str, list[tuple[Any, ...]]],
    language: str = "zh",
    view: ViewSettings | None = None,
    template: Any = "plain",
    task: str = "single",
    token_labels: Sequence[str] = (),
    **settings: Any,
) -> View:
    """Encode rows in a view called v with the part-of-speech table in `pos`; write everything else below `root`."""
    validated(root / "validated", language, rows, task=task, token_labels=token_labels)
    write_prompt(AugmentSettings(template=template), root / "validated", root / "augmented")
    folders = (root / "validated", root / "augmented", pos, root / "out")
    encode_view("v", view or ViewSettings(), EncodeSettings(**settings), *folders)
    return View.load(root / "out")
