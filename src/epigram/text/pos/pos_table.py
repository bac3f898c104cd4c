"""The part-of-speech table: the attention weight of each character and word (Transformer-F, Eq. 5).

One row per entry: `entry`, `language`, `level` (1 to 3 for the General Standard Chinese Characters, else null), `parts`
(tags with their frequencies, most frequent first), `weight` and `source`: `jieba`, `xinhua`, `ud`, `corpus` (found by a
tagger), `hand` (a manual correction) or `standard` (a standard character that no other source has).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.config_types import has_type, validate_as
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.files import read_json, write_json
from epigram.text.dataset.language import Language, as_language, is_mark
from epigram.text.dataset.pos_words import PosWords
from epigram.text.dataset.segmenter import frequencies_of
from epigram.text.dataset.token_texts import SPECIAL_TOKEN
from epigram.text.dataset.validated_corpus import READ_ERRORS
from epigram.text.local_files import local_file
from epigram.text.pos import lexicons
from epigram.text.pos.tagsets import is_notional, read_corrections
from epigram.text.settings import PosTableSettings
from epigram.text.tokens.tokenizers import split_words


class SplitCoverage(TypedDict):
    """Coverage of the sampled texts of one split."""

    texts: int
    tokens: int
    covered: float  # share of the tokens, punctuation excluded, that have a row in the table
    notional: float  # share of all tokens that have the weight of notional words


def coverage(texts: list[str], table: PosTable, language: Language) -> SplitCoverage:
    """Measure the coverage of `texts`. Tokens are characters in Chinese and words in English."""
    counts = Counter(chain.from_iterable(texts if language == "zh" else split_words(texts)))
    entries = list(counts)
    numbers = np.array([counts[entry] for entry in entries], dtype=np.int64)
    known = set(table.frame.filter(table.frame["language"] == language)["entry"])
    in_table = np.array([entry in known for entry in entries], dtype=bool)
    word = np.array([not is_mark(entry) for entry in entries], dtype=bool)
    notional = weights_for(entries, table, language) == np.float32(table.settings.notional)
    return SplitCoverage(
        texts=len(texts),
        tokens=int(numbers.sum()),
        covered=_share(numbers, in_table & word, word),
        notional=_share(numbers, notional, np.ones_like(word)),
    )


def _share(counts: NDArray[np.int64], part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    return float(counts[part].sum() / max(counts[whole].sum(), 1))


MIN_FREQUENCY = 500  # minimum frequency in the jieba dictionary for a word to get its own row
PIECE_PREFIX = r"^(##|Ġ|▁)"  # prefixes of WordPiece, byte-level BPE and SentencePiece pieces
PARTS = pl.List(pl.Struct({"tag": pl.String, "frequency": pl.Int64}))
SCHEMA = pl.Schema(
    [
        ("entry", pl.String()),
        ("language", pl.String()),
        ("level", pl.Int8()),
        ("parts", PARTS),
        ("weight", pl.Float32()),
        ("source", pl.String()),
    ]
)


@dataclass(frozen=True)
class PosTable:
    """Rows of the table, the settings they are based on, and the version of the table (see pos_versions)."""

    frame: pl.DataFrame
    settings: PosTableSettings
    version: int = 1
    previous: str | None = None  # SHA-256 of the previous version's file


def build(settings: PosTableSettings) -> PosTable:
    """Build the table of both languages from the sources that ship with the package."""
    dictionary = lexicons.jieba_dictionary()
    characters = _rows(lexicons.chinese_characters(dictionary), "zh", settings)
    words = dictionary.filter((pl.col("entry").str.len_chars() > 1) & (pl.col("frequency") >= MIN_FREQUENCY))
    frames = [
        _with_levels(characters, settings),
        _rows(words.with_columns(source=pl.lit("jieba")), "zh", settings),
        _rows(lexicons.english_counts().with_columns(source=pl.lit("ud")), "en", settings),
    ]
    table = apply_corrections(pl.concat(frames), lexicons.corrections(), settings)
    if settings.corrections is not None:
        manual = read_corrections(local_file(settings.corrections, "pos_table.corrections"))
        table = apply_corrections(table, manual, settings)
    return PosTable(table, settings)


def _rows(evidence: pl.DataFrame, language: Language, settings: PosTableSettings) -> pl.DataFrame:
    """Return one row per entry from (entry, tag, frequency, source) rows, sorted by entry."""
    share = pl.col("frequency") + 1e-9  # an entry of frequency 0 still gets a weight from its tags
    notional = pl.col("notional").sum() / share.sum()
    weight = pl.when(notional >= 0.5).then(settings.notional).otherwise(settings.function)
    merged = evidence.group_by("entry", "tag").agg(pl.col("frequency").sum(), pl.col("source").first())
    merged = merged.sort("entry", "frequency", "tag", descending=[False, True, False])
    merged = merged.with_columns(notional=share * is_notional(pl.col("tag"), language, settings.adverb))
    return (
        merged.group_by("entry", maintain_order=True)
        .agg(
            pl.lit(language).alias("language"),
            pl.lit(None, pl.Int8).alias("level"),
            pl.struct("tag", "frequency").alias("parts"),
            weight.alias("weight"),
            pl.col("source").first(),
        )
        .cast(SCHEMA)
    )


def _with_levels(characters: pl.DataFrame, settings: PosTableSettings) -> pl.DataFrame:
    """Return all standard characters in the order of the standard; characters without any source are notional."""
    table = lexicons.hanzi_levels().join(characters.drop("level"), on="entry", how="left", maintain_order="left")
    return table.select(
        "entry",
        pl.lit("zh").alias("language"),
        "level",
        pl.col("parts").fill_null(pl.lit([], PARTS)),
        pl.col("weight").fill_null(settings.notional),
        pl.col("source").fill_null("standard"),
    ).cast(SCHEMA)


def apply_corrections(frame: pl.DataFrame, corrections: pl.DataFrame, settings: PosTableSettings) -> pl.DataFrame:
    """Return `frame` with manual `corrections` (entry, language, tag, frequency), which override its other sources."""
    for (name,), evidence in corrections.group_by("language", maintain_order=True):
        language = as_language(str(name))
        manual = _rows(evidence.select(pl.exclude("language"), source=pl.lit("hand")), language, settings)
        levels = frame.filter(pl.col("language") == language).select("entry", "level")
        manual = manual.drop("level").join(levels, on="entry", how="left").select(*SCHEMA)
        frame = frame.update(manual.drop("level"), on=["entry", "language"], how="left", maintain_order="left")
        new = manual.join(frame, on=["entry", "language"], how="anti", maintain_order="left")
        frame = pl.concat([frame, new])
    return frame


def add_entries(table: PosTable, tagged: pl.DataFrame, language: Language) -> PosTable:
    """Return the table plus the missing entries of `tagged` (entry, tag, frequency); existing rows do not change."""
    known = table.frame.filter(pl.col("language") == language)
    unseen = tagged.join(known, on="entry", how="anti", maintain_order="left")
    rows = _rows(unseen.with_columns(source=pl.lit("corpus")), language, table.settings)
    return replace(table, frame=pl.concat([table.frame, rows]))


def weights_for(vocabulary: Sequence[str], table: PosTable, language: Language) -> NDArray[np.float32]:
    """Return the weight of every vocabulary entry by itself, (V,).

    Special tokens weigh 1. An entry outside the table is a function word if it is only punctuation (`is_mark`), else
    notional.
    """
    entry = pl.col("token").str.replace(PIECE_PREFIX, "")
    known = table.frame.filter(pl.col("language") == language).select("entry", "weight")
    frame = pl.DataFrame({"token": vocabulary}, schema={"token": pl.String}).with_columns(
        pl.Series("mark", map(is_mark, vocabulary), dtype=pl.Boolean),
        entry=entry.str.to_lowercase() if language == "en" else entry,
    )
    joined = frame.join(known, on="entry", how="left", maintain_order="left")
    by_shape = pl.when("mark").then(table.settings.function).otherwise(table.settings.notional)
    special = pl.col("token").str.contains(f"^{SPECIAL_TOKEN.pattern}$")
    weight = pl.when(special).then(1.0).otherwise(pl.coalesce("weight", by_shape))
    return joined.select(weight.cast(pl.Float32)).to_series().to_numpy()


def words_of(table: PosTable, language: Language, *, pieces: bool) -> PosWords | None:
    """Return the weights of words, for a view whose tokens may be parts of words; None if its tokens are words."""
    if language == "en" and not pieces:
        return None
    rows = table.frame.filter(pl.col("language") == language)
    mark = pl.Series("mark", map(is_mark, rows["entry"]), dtype=pl.Boolean)
    shape = pl.when(mark).then(table.settings.function).otherwise(table.settings.notional).cast(pl.Float32)
    found = pl.col("source").is_in(["corpus", "hand"]) & (pl.col("entry").str.len_chars() > 1)
    return PosWords(
        language=language,
        pieces=pieces,
        notional=table.settings.notional,
        function=table.settings.function,
        weights=dict(rows.filter(pl.col("weight") != shape).select("entry", "weight").iter_rows()),
        frequencies=frequencies_of(rows.filter(found)["entry"]) if language == "zh" else {},
    )


def save(table: PosTable, folder: Path, about: dict[str, Any]) -> None:
    """Write table.parquet and about.json (version, rows per source, weights, and the keys of `about`) into `folder`."""
    table.frame.write_parquet(folder / "table.parquet")
    counts = table.frame.group_by("language", "source").len().sort("language", "source")
    levels = table.frame.drop_nulls("level").group_by("level").len().sort("level")
    rows = {f"{language} {source}": count for language, source, count in counts.iter_rows()}
    content = {
        "version": table.version,
        "previous": table.previous,
        "settings": asdict(table.settings),
        "rows": table.frame.height,
        "rows_by_source": rows,
        "levels": {str(level): count for level, count in levels.iter_rows()},
    }
    write_json(folder / "about.json", content | about)


def load(folder: Path) -> PosTable:
    """Read what `save` wrote. Raises InputMissingError or DataError."""
    about = read_json(folder / "about.json")
    path = folder / "table.parquet"
    try:
        frame = pl.read_parquet(path, glob=False).select(*SCHEMA)
        settings = validate_as(PosTableSettings, about["settings"])
        table = PosTable(frame, settings, about["version"], about["previous"])
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run dvc repro pos_table") from None
    except (*READ_ERRORS, ParameterError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{folder} is not a part-of-speech table ({reason}): delete it and run dvc repro") from None
    if not has_type(table.version, int) or not has_type(table.previous, str | None):
        raise DataError(f"{folder / 'about.json'} has no valid version: delete {folder} and run dvc repro")
    if frame.schema != SCHEMA or not frame["weight"].is_between(0, 1).fill_null(False).all():
        raise DataError(f"{path} contains weights outside 0 to 1: delete it and run dvc repro")
    return table
