"""Statistics of a corpus: classes, lengths, vocabulary, and the share of dev and test tokens that train lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.data.tables import count_marked
from epigram.data.validation.violations import MAX_VALUE_LENGTH
from epigram.text.tokens.characters import count_characters

Part = Iterable[pl.DataFrame]  # the rows of a split in batches

# naive tokens: characters in Chinese; words and punctuation marks in English
TOKEN = {"zh": r"\S", "en": r"\w+(?:['’]\w+)*|[^\w\s]"}
UNIT = {"zh": "character", "en": "word"}
EMOJI_ONLY = r"^[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}\x{200D}\x{FE0F}\x{20E3}\s]+$"

BINS = 20  # bins of a length histogram, up to the 99th percentile; one more bin holds longer texts
CHUNK = 10_000_000  # characters that are tokenized at once


@dataclass
class SplitStatistics:
    """Statistics of one split."""

    characters: NDArray[np.int64]  # number of texts of each length in characters
    tokens: NDArray[np.int64]  # number of texts of each length in naive tokens
    emoji_only: int
    longest: tuple[int, int, str]  # characters, −row, start of the text
    vocabulary: pl.DataFrame  # token, count
    marked: int = 0  # rows that a machine has labelled


def corpus_statistics(
    parts: Mapping[str, Part], classes: Mapping[str, Mapping[str, int]], repeats: Mapping[str, int], language: str
) -> dict[str, Any]:
    """Return the statistics of the corpus as plain values for JSON; lengths are in characters and in naive tokens.

    `parts` are train, dev and test. `classes` counts the rows of each label per split, `repeats` the repeated texts
    per split.
    """
    seen = {name: split_statistics(part, language) for name, part in parts.items()}
    longest = max(seen, key=lambda name: seen[name].longest)
    characters, row, text = seen[longest].longest
    train = [*classes["train"].values()] or [0]
    return {
        "rows": {name: int(part.characters.sum()) for name, part in seen.items()},
        "classes": dict(classes),
        "imbalance": round(max(train) / min(train), 3) if min(train) else None,  # largest class to smallest
        "repeats": dict(repeats),
        "machine_labels": {name: part.marked for name, part in seen.items()},
        "emoji_only": {name: part.emoji_only for name, part in seen.items()},
        "length": {
            "characters": histogram({name: part.characters for name, part in seen.items()}),
            "tokens": histogram({name: part.tokens for name, part in seen.items()}),
        },
        "longest": {"row": -row, "text": text, "split": longest, "characters": characters},
        "vocabulary": vocabulary({name: part.vocabulary for name, part in seen.items()}, language),
    }


def split_statistics(part: Part, language: str) -> SplitStatistics:
    """Compute the statistics of a split in one pass over its rows."""
    nothing = np.zeros(0, np.int64)
    seen = SplitStatistics(
        nothing, nothing, 0, (-1, 0, ""), pl.DataFrame(schema={"token": pl.String, "count": pl.Int64})
    )
    for batch in part:
        text = batch["text"]
        characters = text.str.len_chars()
        seen.characters = _add_lengths(seen.characters, characters)
        seen.tokens = _add_lengths(seen.tokens, text.str.count_matches(TOKEN[language]))
        seen.marked += count_marked(batch)
        seen.emoji_only += int(text.str.contains(EMOJI_ONLY).sum())
        top = int(characters.arg_max() or 0)
        seen.longest = max(seen.longest, (characters[top], -batch["row"][top], text[top][:MAX_VALUE_LENGTH]))
        counts = pl.concat([seen.vocabulary, token_counts(text, language)])
        seen.vocabulary = counts.group_by("token").sum()
    return seen


def _add_lengths(counts: NDArray[np.int64], lengths: pl.Series) -> NDArray[np.int64]:
    """Add the number of texts of each length in `lengths` to `counts`."""
    more = np.bincount(lengths.to_numpy(), minlength=len(counts))
    more[: len(counts)] += counts
    return more


def histogram(lengths: Mapping[str, NDArray[np.int64]]) -> dict[str, Any]:
    """Return a histogram with bins of equal width, and the mean, percentiles and maximum of all lengths.

    The width is 1, 2, 5, 10, 20, …. Bin i holds edges[i] ≤ length < edges[i + 1]; the last bin holds all longer texts.
    """
    longest = max(len(counts) for counts in lengths.values())
    padded = {name: np.pad(counts, (0, longest - len(counts))) for name, counts in lengths.items()}
    everything = np.sum(list(padded.values()), axis=0)
    top = _quantile(everything, 0.99)
    power = 10 ** max(0, int(np.floor(np.log10(max(top / BINS, 1.0)))))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= top / BINS)
    bins = int(top) // step + 1
    bin_of = np.minimum(np.arange(longest) // step, bins)
    return {
        "edges": [step * edge for edge in range(bins + 1)],
        "counts": {
            name: np.bincount(bin_of, counts, minlength=bins + 1).astype(int).tolist()
            for name, counts in padded.items()
        },
        "mean": round(int(everything @ np.arange(longest)) / int(everything.sum()), 2),
        **{f"p{share}": int(_quantile(everything, share / 100)) for share in (5, 50, 95, 99)},
        "max": int(np.flatnonzero(everything)[-1]),
    }


def _quantile(counts: NDArray[np.int64], share: float) -> float:
    """Return `np.quantile` of the values 0, 1, …, where value i occurs counts[i] times."""
    position = share * (int(counts.sum()) - 1)
    around = np.searchsorted(counts.cumsum(), [int(position), int(np.ceil(position))], side="right")
    return float(np.quantile(around, position - int(position)))


def vocabulary(counts: Mapping[str, pl.DataFrame], language: str) -> dict[str, Any]:
    """Return the number of distinct naive tokens of train, and the share of dev and test tokens not among them."""
    known, unknown = counts["train"]["token"].implode(), {}
    for name, table in counts.items():
        if name != "train":
            absent = int(table.filter(~pl.col("token").is_in(known))["count"].sum())
            unknown[name] = round(absent / (int(table["count"].sum()) or 1), 6)
    return {"unit": UNIT[language], "train": counts["train"].height, "unknown": unknown}


def token_counts(text: pl.Series, language: str) -> pl.DataFrame:
    """Count each naive token in the columns `token` and `count`; English is lower-cased."""
    if language == "zh":
        counts = count_characters([text.to_list()])
        found = np.flatnonzero(counts)
        table = pl.DataFrame({"token": [chr(code) for code in found], "count": counts[found]})
        return table.cast({"token": pl.String}).filter(pl.col("token").str.contains(TOKEN["zh"]))
    chunks = pl.DataFrame({"text": text}).with_columns(
        chunk=pl.col("text").str.len_chars().cast(pl.Int64).cum_sum() // CHUNK
    )
    counted = [
        chunk.select(token=pl.col("text").str.to_lowercase())
        .select(pl.col("token").str.extract_all(TOKEN[language]).explode().drop_nulls())
        .group_by("token")
        .len("count")
        for chunk in chunks.partition_by("chunk", maintain_order=True)
    ]
    empty = pl.DataFrame(schema={"token": pl.String, "count": pl.Int64})
    return pl.concat([empty, *(table.cast({"count": pl.Int64}) for table in counted)]).group_by("token").sum()
