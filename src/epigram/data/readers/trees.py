"""Reader for sentiment trees: one Penn Treebank tree per line, with a class at every node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from epigram.core.config_types import Positive
from epigram.core.errors import DataError
from epigram.data.decoding import read_lines
from epigram.data.readers import Reader, register
from epigram.data.sources.source import SourceSection

TREE = r"^\s*\((\d+) .*\)\s*$"
LEAF = r"\((\d+) ([^() ]+)\)"  # a word may contain a no-break space: 8 1/2
PARTS = re.compile(r"\((\d+) |([^() ]+)\)|\)")  # the start of a node with its class, a word with the end of its leaf
ESCAPES = {"\\/": "/", "\\*": "*"}
BRACKETS = {"-LRB-": "(", "-RRB-": ")"}


@dataclass(frozen=True, kw_only=True)
class PhraseLabels(SourceSection):
    """Token labels of the smallest phrases (nodes) of at most `longest` words that have another class than `neutral`.

    A phrase is smallest if no phrase in it has the same label. Where phrases of two labels overlap, the label of the
    higher class counts. A word in no phrase has the label of `neutral`.
    """

    longest: Positive
    neutral: str = "2"


@register("trees")
@dataclass(frozen=True, kw_only=True)
class Trees(Reader):
    """Reader for trees; `token_names` maps classes to token labels, each leaf's own or, with `phrases`, a phrase's."""

    token_names: dict[str, str] = field(default_factory=dict)
    phrases: PhraseLabels | None = None
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
        if self.phrases is not None:
            frame = frame.with_columns(token_labels=self._phrase_labels(frame, path))
        yield frame.with_columns(text=pl.col("tokens").list.join(" "))

    def _phrase_labels(self, frame: pl.DataFrame, path: Path) -> pl.Series:
        """Return the token labels of all trees. Raises DataError for a tree whose brackets do not match."""
        assert self.phrases is not None
        found: list[list[str]] = []
        for line, tree in frame.select("line", "text").iter_rows():
            try:
                found.append(_labels_of_words(tree, self.token_names, self.phrases))
            except IndexError:
                raise DataError(f"{path} line {line} has a bracket too much: {tree[:80]!r}") from None
        return pl.Series(found, dtype=pl.List(pl.String))


def _labels_of_words(tree: str, names: dict[str, str], options: PhraseLabels) -> list[str]:
    """Return the label of each word of a tree. Nodes are visited bottom-up, so that a phrase comes after its parts."""
    neutral = names.get(options.neutral, options.neutral)
    found: list[dict[str, str]] = []  # class of the phrase that gave a word a label, by word and label
    opened: list[tuple[str, int]] = []  # class and first word of each node that has not ended
    for part in PARTS.finditer(tree):
        if part[1] is not None:
            opened.append((part[1], len(found)))
            continue
        if part[2] is not None:
            found.append({})
        of_node, first = opened.pop()
        label, words = names.get(of_node, of_node), found[first:]
        if label != neutral and len(words) <= options.longest and not any(label in word for word in words):
            for word in words:
                word[label] = of_node
    return [max(word, key=lambda label: int(word[label])) if word else neutral for word in found]
