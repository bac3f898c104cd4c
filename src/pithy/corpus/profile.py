"""What a corpus looks like: classes, lengths, vocabulary and what of it is new in dev and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from pithy.corpus.faults import WIDTH
from pithy.corpus.keys import each_label, exact_text

Parts = Mapping[str, pl.DataFrame]  # train, dev, test

# a naive token: a character of Chinese; a word or a mark of English
TOKEN = {"zh": r"\S", "en": r"\w+(?:['’]\w+)*|[^\w\s]"}
UNIT = {"zh": "character", "en": "word"}
EMOJI_ONLY = r"^[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}\x{200D}\x{FE0F}\x{20E3}\s]+$"

BINS = 20  # of a length histogram, up to the 99th percentile; one more holds the rest
CHUNK = 10_000_000  # characters that are split into tokens at once


def profile(parts: Parts, labels: Sequence[str], language: str) -> dict[str, Any]:
    """Counts of the corpus, as plain values for JSON; lengths are in characters and in naive tokens."""
    characters = {name: part["text"].str.len_chars() for name, part in parts.items()}
    tokens = {name: part["text"].str.count_matches(TOKEN[language]) for name, part in parts.items()}
    classes = {name: class_counts(part, labels) for name, part in parts.items()}
    return {
        "rows": {name: part.height for name, part in parts.items()},
        "classes": classes,
        "imbalance": _imbalance(classes["train"]),
        "repeats": {name: part.height - part.select(exact_text().n_unique()).item() for name, part in parts.items()},
        "emoji_only": {name: int(part["text"].str.contains(EMOJI_ONLY).sum()) for name, part in parts.items()},
        "length": {"characters": histogram(characters), "tokens": histogram(tokens)},
        "longest": longest(parts),
        "vocabulary": vocabulary(parts, language),
    }


def class_counts(part: pl.DataFrame, labels: Sequence[str]) -> dict[str, int]:
    """Rows of each label, in the order of `labels`."""
    return dict.fromkeys(labels, 0) | dict(each_label(part).group_by("label").len().iter_rows())


def _imbalance(classes: Mapping[str, int]) -> float | None:
    """Rows of the largest class for one of the smallest."""
    smallest = min(classes.values(), default=0)
    return round(max(classes.values()) / smallest, 3) if smallest else None


def histogram(lengths: Mapping[str, pl.Series]) -> dict[str, Any]:
    """Lengths in equal bins: bin i holds edges[i] ≤ length < edges[i + 1], and the last all that is longer."""
    everything = np.concatenate([series.to_numpy() for series in lengths.values()])
    step = _step(float(np.quantile(everything, 0.99)) / BINS)
    bins = int(np.quantile(everything, 0.99)) // step + 1
    return {
        "edges": [step * edge for edge in range(bins + 1)],
        "counts": {
            name: np.bincount(np.minimum(series.to_numpy() // step, bins), minlength=bins + 1).tolist()
            for name, series in lengths.items()
        },
        "mean": round(float(everything.mean()), 2),
        **{f"p{share}": int(np.quantile(everything, share / 100)) for share in (5, 50, 95, 99)},
        "max": int(everything.max()),
    }


def _step(width: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50, … that is at least `width`."""
    power = 10 ** max(0, int(np.floor(np.log10(max(width, 1.0)))))
    return int(next(power * digit for digit in (1, 2, 5, 10) if power * digit >= width))


def longest(parts: Parts) -> dict[str, Any]:
    """The longest text: its split, row, length and first characters."""
    lengths = pl.concat(
        part.select("row", "text", split=pl.lit(name), characters=pl.col("text").str.len_chars())
        for name, part in parts.items()
    )
    top = lengths.sort("characters", "row", descending=[True, False]).row(0, named=True)
    return {**top, "text": top["text"][:WIDTH]}


def vocabulary(parts: Parts, language: str) -> dict[str, Any]:
    """Different naive tokens of train, and the share of the tokens of dev and test that are not among them."""
    counts = {name: token_counts(part["text"], language) for name, part in parts.items()}
    known = counts["train"]["token"].implode()
    unknown = {
        name: _share(int(table.filter(~pl.col("token").is_in(known))["count"].sum()), int(table["count"].sum()))
        for name, table in counts.items()
        if name != "train"
    }
    return {"unit": UNIT[language], "train": counts["train"].height, "unknown": unknown}


def token_counts(text: pl.Series, language: str) -> pl.DataFrame:
    """How often each naive token occurs: `token`, `count`; English in lower case."""
    chunks = pl.DataFrame({"text": text}).with_columns(
        chunk=pl.col("text").str.len_chars().cast(pl.Int64).cum_sum() // CHUNK
    )
    counted = [
        chunk.select(token=pl.col("text").str.to_lowercase() if language == "en" else pl.col("text"))
        .select(pl.col("token").str.extract_all(TOKEN[language]).explode().drop_nulls())
        .group_by("token")
        .len("count")
        for chunk in chunks.partition_by("chunk", maintain_order=True)
    ]
    empty = pl.DataFrame(schema={"token": pl.String, "count": pl.Int64})
    return pl.concat([empty, *(table.cast({"count": pl.Int64}) for table in counted)]).group_by("token").sum()


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
