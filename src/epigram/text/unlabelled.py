"""Texts for pretraining as flat arrays: the training split, and further texts, except texts of dev and test.

A key is a hash of 8 bytes. With it, pretraining needs neither the texts themselves nor the library that reads them.

English WordPiece tokens that start with `##` continue a word; English word tokens are whole words. Chinese is segmented
by jieba: all characters of one jieba word belong together (whole-word masking, Cui et al. 2020).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epigram.core.arrays import NpyWriter, Ragged, RaggedWriter, read_array
from epigram.core.errors import DataError
from epigram.text import lines
from epigram.text.dataset.encoded_dataset import View
from epigram.text.dataset.segmenter import jieba
from epigram.text.dataset.token_texts import CONTINUATION, TokenTexts
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.tokenizers import load, vocabulary_of

KEYS = "held_out.npy"


def text_key(text: str) -> int:
    """Return the key of a text, regardless of the whitespace around it."""
    return int.from_bytes(hashlib.blake2b(text.strip().encode(), digest_size=8).digest(), "little")


def write_keys(folder: Path, batches: Iterable[Sequence[str]]) -> None:
    """Write the keys (K,) of the different texts of all `batches` into the `folder` of a view."""
    keys = {text_key(text) for texts in batches for text in texts}
    np.save(folder / KEYS, np.array(sorted(keys), np.uint64))


def read_keys(folder: Path) -> set[int]:
    """Return the keys in the `folder` of a view. Raises InputMissingError or DataError."""
    keys = read_array(folder / KEYS)
    if keys.dtype != np.uint64 or keys.ndim != 1:
        raise DataError(f"{folder / KEYS} contains {keys.dtype} {keys.shape}; expected uint64 (K,): run dvc repro")
    return set(keys.tolist())


class WordStarts:
    """Finder of word starts in encoded texts, prepared for one vocabulary in the order of its ids."""

    def __init__(self, vocabulary: Sequence[str], *, language: str, pieces: bool) -> None:
        self._continues = np.array([pieces and CONTINUATION.match(entry) is not None for entry in vocabulary])
        self._texts = TokenTexts(vocabulary, pieces=pieces) if language == "zh" else None

    def find(self, ids: Ragged[np.int32]) -> NDArray[np.bool_]:
        """Return whether each of the T tokens of N texts begins a word, (T,)."""
        starts = ~self._continues[ids.values]
        if self._texts is not None:
            text, positions = self._texts.join(ids)
            begins = np.zeros(len(text) + 1, dtype=bool)
            begins[np.cumsum(np.fromiter(map(len, jieba().cut(text)), np.int64))] = True
            starts &= begins[positions]
        starts[ids.starts] = True
        return starts


BATCH = 5_000  # texts
NO_LIMIT = 2**31  # maximum length: no text is truncated
HELD_OUT_INTERVAL = 50  # one text in 50 is held out to measure the perplexity
PARTS = ("train", "held")


def read_lines(path: Path) -> Iterator[str]:
    """Yield the texts of a file, one per line, without blank lines.

    Raises DataError for a line that is not text and for a file without texts.
    """
    empty = True
    for text in map(str.strip, lines.read_texts(path, advice="convert the file to UTF-8")):
        if text:
            empty = False
            yield text
    if empty:
        raise DataError(f"{path} contains no text; expected one text per line")


def write_texts(folder: Path, view: View, further: Path | None) -> int:
    """Write the training texts of `view` and the texts of the file `further` into `folder`, batch by batch.

    Texts of the file that dev or test has too are left out; return how many. In a fold, dev is the held-out fold.
    Each of the parts `train` and `held` (one text in HELD_OUT_INTERVAL) has the arrays `ids` (T,), `starts` (T,), true
    where a word begins, and `offsets` (N + 1,).
    """
    tokenizer, train = load(view.tokenizer_json), view.split("train").ids
    words = WordStarts(vocabulary_of(tokenizer), language=view.language, pieces=view.tokenizer == "wordpiece")
    encoder, known = TextEncoder(tokenizer, view.join), set() if further is None else read_keys(view.folder)
    rest = iter(()) if further is None else read_lines(further)
    count = left_out = 0
    with ExitStack() as stack:
        files = {part: _open_files(stack, folder, part) for part in PARTS}

        def append(ids: Ragged[np.int32]) -> None:
            nonlocal count
            starts = ids.with_values(words.find(ids))
            held = (count + np.arange(len(ids))) % HELD_OUT_INTERVAL == 0
            for part, rows in zip(PARTS, (~held, held), strict=True):
                tokens, flags = files[part]
                tokens.append(ids[rows])
                flags.append(starts[rows].values)
            count += len(ids)

        for first in range(0, len(train), BATCH):
            append(train[first : first + BATCH])
        while batch := list(islice(rest, BATCH)):
            texts = [text for text in batch if text_key(text) not in known]
            left_out += len(batch) - len(texts)
            if texts:
                append(encoder.encode(texts, NO_LIMIT).ids)
    return left_out


def _open_files(stack: ExitStack, folder: Path, part: str) -> tuple[RaggedWriter, NpyWriter]:
    """Return the writers of a part's token ids with offsets, and of its word starts."""
    ids, offsets, starts = (
        stack.enter_context(NpyWriter(folder / f"{part}.{name}.npy", dtype))
        for name, dtype in (("ids", np.int32), ("offsets", np.int64), ("starts", np.bool_))
    )
    return RaggedWriter(ids, offsets), starts
