"""Flat arrays of the texts for pretraining: the training split, and optional further texts without labels."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np

from epigram.core.errors import DataError
from epigram.core.npy_files import NpyWriter, RaggedWriter
from epigram.core.ragged import Ragged
from epigram.text import lines
from epigram.text.dataset.encoded_dataset import View
from epigram.text.held_out_texts import read_keys, text_key
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.tokenizers import load, vocabulary_of
from epigram.text.tokens.word_starts import WordStarts

BATCH = 5_000  # texts
NO_LIMIT = 2**31  # maximum length: no text is truncated
HELD_OUT_INTERVAL = 50  # one text in 50 is held out to measure the perplexity
PARTS = ("train", "held")


def read_lines(path: Path) -> Iterator[str]:
    """Yield the texts of a UTF-8 file, one per line, without blank lines.

    Raises DataError for a line that is not text and for a file without texts.
    """
    empty, name = True, f"{path} line"
    with path.open("rb") as file:
        for text in map(str.strip, lines.decode_lines(lines.read_lines(file, name), name)):
            if text:
                empty = False
                yield text
    if empty:
        raise DataError(f"{path} contains no text; expected one text per line")


class FurtherTexts:
    """Texts of a file, one per line, without those whose keys are in `held_out`, which `left_out` counts."""

    def __init__(self, file: Path, held_out: Container[int]) -> None:
        self.file, self.held_out, self.left_out = file, held_out, 0

    def __iter__(self) -> Iterator[str]:
        for text in read_lines(self.file):
            if text_key(text) in self.held_out:
                self.left_out += 1
            else:
                yield text


def write_texts(folder: Path, view: View, further: Path | None) -> int:
    """Write the training texts of `view` and the texts of the file `further` into `folder`, batch by batch.

    Texts of the file that dev or test has too are left out; return how many. In a fold, dev is the held-out fold.
    Each of the parts `train` and `held` (one text in HELD_OUT_INTERVAL) has the arrays `ids` (T,), `starts` (T,), true
    where a word begins, and `offsets` (N + 1,).
    """
    tokenizer = load(view.tokenizer_json)
    words = WordStarts(vocabulary_of(tokenizer), language=view.language, pieces=view.tokenizer == "wordpiece")
    texts = None if further is None else FurtherTexts(further, read_keys(view.folder))
    count = 0
    with ExitStack() as stack:
        files = {part: _open_files(stack, folder, part) for part in PARTS}
        for ids in _batches(view, TextEncoder(tokenizer), () if texts is None else texts):
            starts = ids.with_values(words.find(ids))
            held = (count + np.arange(len(ids))) % HELD_OUT_INTERVAL == 0
            for part, rows in zip(PARTS, (~held, held), strict=True):
                tokens, flags = files[part]
                tokens.append(ids[rows])
                flags.append(starts[rows].values)
            count += len(ids)
    return 0 if texts is None else texts.left_out


def _open_files(stack: ExitStack, folder: Path, part: str) -> tuple[RaggedWriter, NpyWriter]:
    """Return the writers of a part's token ids with offsets, and of its word starts."""
    ids, offsets, starts = (
        stack.enter_context(NpyWriter(folder / f"{part}.{name}.npy", dtype))
        for name, dtype in (("ids", np.int32), ("offsets", np.int64), ("starts", np.bool_))
    )
    return RaggedWriter(ids, offsets), starts


def _batches(view: View, encoder: TextEncoder, further: Iterable[str]) -> Iterator[Ragged[np.int32]]:
    """Yield the token ids of some texts at a time."""
    train = view.split("train").ids
    for first in range(0, len(train), BATCH):
        yield train[first : first + BATCH]
    rest = iter(further)
    while texts := list(islice(rest, BATCH)):
        yield encoder.encode(texts, NO_LIMIT).ids
