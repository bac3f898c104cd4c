"""Part-of-speech evidence from each source, files of the user among them: one row per (entry, tag) pair.

Every function returns a frame with the columns `entry`, `tag` and `frequency`. The sources are the jieba dictionary,
which is installed with the jieba package, and the files in resources/ (origins: resources/README.md).
"""

from __future__ import annotations

from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import polars as pl

SCHEMA = {"entry": pl.String, "tag": pl.String, "frequency": pl.Int64}
VAGUE_TAGS = ("zg", "g", "x")  # jieba tags for characters whose part of speech is unknown, mostly bound ones


def _resource(name: str) -> Path:
    return Path(str(files("epigram.text.pos") / "resources" / name))


def _read(path: Path, schema: dict[str, type[pl.DataType]], separator: str = "\t") -> pl.DataFrame:
    return pl.read_csv(
        path, separator=separator, has_header=False, schema=schema, comment_prefix="# ", quote_char=None
    )  # fmt: skip


def hanzi_levels() -> pl.DataFrame:
    """Return the 8,105 General Standard Chinese Characters: `entry`, `level` (1, 2 or 3)."""
    lines = _resource("hanzi_levels.txt").read_text(encoding="utf-8").splitlines()[1:]
    entries = [character for line in lines for character in line]
    sizes = [level for level, line in enumerate(lines, start=1) for _ in line]
    return pl.DataFrame({"entry": entries, "level": sizes}, schema={"entry": pl.String, "level": pl.Int8})


def jieba_dictionary() -> pl.DataFrame:
    """Return the 349,045 entries of the jieba dictionary; frequencies are counts in its corpus."""
    spec = find_spec("jieba")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("jieba is not installed")
    path = Path(spec.submodule_search_locations[0]) / "dict.txt"
    schema = {"entry": pl.String, "frequency": pl.Int64, "tag": pl.String}
    return _read(path, schema, separator=" ").select(*SCHEMA).unique(maintain_order=True)


def xinhua_tags() -> pl.DataFrame:
    """Return the parts of speech named in the glosses of common characters; frequencies are numbers of senses."""
    return _read(_resource("xinhua_parts.tsv"), SCHEMA)


def english_counts() -> pl.DataFrame:
    """Return the most frequent words of a treebank with their UPOS counts."""
    return _read(_resource("english_parts.tsv"), SCHEMA)


def corrections() -> pl.DataFrame:
    """Return the hand-made corrections for both languages: `entry`, `language`, `tag`, `frequency`."""
    schema = {"entry": pl.String, "language": pl.String, "tag": pl.String, "frequency": pl.Int64}
    return _read(_resource("corrections.tsv"), schema)


def chinese_characters(dictionary: pl.DataFrame) -> pl.DataFrame:
    """Return the evidence for every standard character that a source covers; `source` names the source that decided.

    Dictionary tags outside VAGUE are kept, and the tags of the glosses are added to them. The frequency of a VAGUE
    dictionary entry is divided among the tags of its glosses, if it has any. A character without dictionary entry and
    gloss gets the tags of the dictionary words that contain it.
    """
    standard = hanzi_levels().select("entry")
    glosses = xinhua_tags()
    known = dictionary.join(standard, on="entry", how="semi", maintain_order="left")
    vague = known.filter(pl.col("tag").is_in(VAGUE_TAGS)).join(glosses, on="entry", how="semi", maintain_order="left")
    solid = known.join(vague, on="entry", how="anti", maintain_order="left")
    glossed = _add_missing_tags(solid, _distribute_frequency(glosses, vague))
    rare = standard.join(glossed, on="entry", how="anti", maintain_order="left")
    return pl.concat([glossed, _tags_from_words(rare, dictionary).with_columns(source=pl.lit("jieba"))])


def _distribute_frequency(glosses: pl.DataFrame, vague: pl.DataFrame) -> pl.DataFrame:
    """Return `glosses`, with the frequency of each vague entry divided among its tags in proportion to their senses."""
    total = vague.select("entry", total="frequency")
    share = pl.col("total") * pl.col("frequency") // pl.col("frequency").sum().over("entry")
    joined = glosses.join(total, on="entry", how="left", maintain_order="left")
    return joined.select("entry", "tag", pl.coalesce(share, "frequency").alias("frequency"))


def _add_missing_tags(solid: pl.DataFrame, glosses: pl.DataFrame) -> pl.DataFrame:
    """Return `solid` and the rows of `glosses` whose tag class (first letter) `solid` lacks for that entry."""
    keys: list[str | pl.Expr] = ["entry", pl.col("tag").str.head(1)]
    new = glosses.join(solid, left_on=keys, right_on=keys, how="anti", maintain_order="left")
    source = pl.when(pl.col("entry").is_in(solid["entry"].implode())).then(pl.lit("jieba")).otherwise(pl.lit("xinhua"))
    return pl.concat([solid, new]).with_columns(source=source)


def _tags_from_words(characters: pl.DataFrame, dictionary: pl.DataFrame) -> pl.DataFrame:
    """Return the tags of `characters`, summed over the dictionary words that contain them."""
    words = dictionary.filter(pl.col("entry").str.len_chars() > 1).with_columns(
        pl.col("entry").str.split("").list.unique()
    )
    contained = words.explode("entry").join(characters, on="entry", how="semi")
    return contained.group_by("entry", "tag").agg(pl.col("frequency").sum()).sort("entry", "tag")
