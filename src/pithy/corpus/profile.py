"""What a corpus looks like: classes, lengths, vocabulary and what of it is new in dev and test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pithy.corpus.faults import WIDTH
from pithy.text.characters import count_characters

Part = Iterable[pl.DataFrame]  # the rows of a split in batches

# a naive token: a character of Chinese; a word or a mark of English
TOKEN = {"zh": r"\S", "en": r"\w+(?:['’]\w+)*|[^\w\s]"}
UNIT = {"zh": "character", "en": "word"}
EMOJI_ONLY = r"^[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}\x{200D}\x{FE0F}\x{20E3}\s]+$"

BINS = 20  # of a length histogram, up to the 99th percentile; one more holds the rest
CHUNK = 10_000_000  # characters that are split into tokens at once


@dataclass
class Measures:
    """What is seen of a split."""

    characters: NDArray[np.int64]  # texts of each length in characters
    tokens: NDArray[np.int64]  # the same in naive tokens
    emoji_only: int
    longest: tuple[int, int, str]  # characters, −row, the text's start
    vocabulary: pl.DataFrame  # token, count


def profile(
    parts: Mapping[str, Part], classes: Mapping[str, Mapping[str, int]], repeats: Mapping[str, int], language: str
) -> dict[str, Any]:
    """Counts of the corpus, as plain values for JSON; lengths are in characters and in naive tokens.

    `parts` are train, dev and test; `classes` counts the rows of each label in them, `repeats` their repeated texts.
    """
    seen = {name: measure(part, language) for name, part in parts.items()}
    return {
        "rows": {name: int(part.characters.sum()) for name, part in seen.items()},
        "classes": dict(classes),
        "imbalance": _imbalance(classes["train"]),
        "repeats": dict(repeats),
        "emoji_only": {name: part.emoji_only for name, part in seen.items()},
        "length": {
            "characters": histogram({name: part.characters for name, part in seen.items()}),
            "tokens": histogram({name: part.tokens for name, part in seen.items()}),
        },
        "longest": longest(seen),
        "vocabulary": vocabulary({name: part.vocabulary for name, part in seen.items()}, language),
    }


def measure(part: Part, language: str) -> Measures:
    """Look at every row of a split once."""
    nothing = np.zeros(0, np.int64)
    seen = Measures(nothing, nothing, 0, (-1, 0, ""), pl.DataFrame(schema={"token": pl.String, "count": pl.Int64}))
    for batch in part:
        text = batch["text"]
        characters = text.str.len_chars()
        seen.characters = _added(seen.characters, characters)
        seen.tokens = _added(seen.tokens, text.str.count_matches(TOKEN[language]))
        seen.emoji_only += int(text.str.contains(EMOJI_ONLY).sum())
        top = int(characters.arg_max() or 0)
        seen.longest = max(seen.longest, (characters[top], -batch["row"][top], text[top][:WIDTH]))
        counts = pl.concat([seen.vocabulary, token_counts(text, language)])
        seen.vocabulary = counts.group_by("token").sum()
    return seen


def _added(counts: NDArray[np.int64], lengths: pl.Series) -> NDArray[np.int64]:
    """`counts` of each length and those of `lengths`."""
    more = np.bincount(lengths.to_numpy(), minlength=len(counts))
    more[: len(counts)] += counts
    return more


def _imbalance(classes: Mapping[str, int]) -> float | None:
    """Rows of the largest class for one of the smallest."""
    smallest = min(classes.values(), default=0)
    return round(max(classes.values()) / smallest, 3) if smallest else None


def histogram(lengths: Mapping[str, NDArray[np.int64]]) -> dict[str, Any]:
    """Texts of each length in equal bins: bin i holds edges[i] ≤ length < edges[i + 1], the last all that is longer."""
    longest = max(len(counts) for counts in lengths.values())
    padded = {name: np.pad(counts, (0, longest - len(counts))) for name, counts in lengths.items()}
    everything = np.sum(list(padded.values()), axis=0)
    top = _quantile(everything, 0.99)
    step = _step(top / BINS)
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
    """`np.quantile` of the values 0, 1, …, each as often as `counts` says."""
    place = share * (int(counts.sum()) - 1)
    around = np.searchsorted(counts.cumsum(), [int(place), int(np.ceil(place))], side="right")
    return float(np.quantile(around, place - int(place)))


def _step(width: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50, … that is at least `width`."""
    power = 10 ** max(0, int(np.floor(np.log10(max(width, 1.0)))))
    return int(next(power * digit for digit in (1, 2, 5, 10) if power * digit >= width))


def longest(seen: Mapping[str, Measures]) -> dict[str, Any]:
    """The longest text: its row, first characters, split and length."""
    split = max(seen, key=lambda name: seen[name].longest)
    characters, row, text = seen[split].longest
    return {"row": -row, "text": text, "split": split, "characters": characters}


def vocabulary(counts: Mapping[str, pl.DataFrame], language: str) -> dict[str, Any]:
    """Different naive tokens of train, and the share of the tokens of dev and test that are not among them."""
    known = counts["train"]["token"].implode()
    unknown = {
        name: _share(int(table.filter(~pl.col("token").is_in(known))["count"].sum()), int(table["count"].sum()))
        for name, table in counts.items()
        if name != "train"
    }
    return {"unit": UNIT[language], "train": counts["train"].height, "unknown": unknown}


def token_counts(text: pl.Series, language: str) -> pl.DataFrame:
    """How often each naive token occurs: `token`, `count`; English in lower case."""
    if language == "zh":
        return _character_counts(text)
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


def _character_counts(text: pl.Series) -> pl.DataFrame:
    counts = count_characters([text.to_list()])
    found = np.flatnonzero(counts)
    table = pl.DataFrame({"token": [chr(code) for code in found], "count": counts[found]})
    return table.cast({"token": pl.String}).filter(pl.col("token").str.contains(TOKEN["zh"]))


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
