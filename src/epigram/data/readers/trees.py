"""Reader for sentiment trees: one Penn Treebank tree per line, with a class at every node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from epigram.core.errors import DataError
from epigram.data.decoding import read_lines
from epigram.data.readers import Reader, register

TREE = r"^\s*\((\d+) .*\)\s*$"
LEAF = r"\((\d+) ([^() ]+)\)"  # a word may contain a no-break space: 8 1/2
ESCAPES = {"\\/": "/", "\\*": "*"}
BRACKETS = {"-LRB-": "(", "-RRB-": ")"}


@register("trees")
@dataclass(frozen=True, kw_only=True)
class Trees(Reader):
    """Reader for trees; `token_names` maps the classes of leaves to token labels."""

    token_names: dict[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"

    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield line, text (leaves joined by spaces), label (the root's class), tokens, token_labels.

        Raises DataError for a line that is not a tree.
        """
        frame = read_lines(path, self.encoding)
        text, leaf = pl.col("text"), pl.element()
        leaves = text.str.extract_all(LEAF)
        word = leaf.str.extract(LEAF, 2).replace(BRACKETS).str.replace_many(ESCAPES)
        frame = frame.with_columns(
            label=text.str.extract(TREE),
            tokens=leaves.list.eval(word),
            token_labels=leaves.list.eval(leaf.str.extract(LEAF, 1).replace(self.token_names)),
        )
        broken = frame.filter(pl.col("label").is_null() | (pl.col("tokens").list.len() == 0))
        if broken.height:
            first = broken.row(0, named=True)
            raise DataError(
                f"{path} line {first['line']} is not a tree such as (3 (2 good) (2 film)): {first['text'][:80]!r}"
            )
        yield frame.with_columns(text=pl.col("tokens").list.join(" "))
