"""Flat arrays of the texts for pretraining: the training split, and optional further texts without labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epigram.core.errors import DataError
from epigram.core.ragged import NpyWriter
from epigram.text.encoded_dataset import View
from epigram.text.encoding import TextEncoder
from epigram.text.tokenizers import load, vocabulary_of
from epigram.text.word_starts import WordStarts

BATCH = 5_000  # texts
NO_LIMIT = 2**31  # maximum length: no text is truncated
HELD_OUT_INTERVAL = 50  # one text in 50 is held out to measure the perplexity
DTYPES = {"ids": np.int32, "starts": np.bool_, "offsets": np.int64}

Batch = tuple[NDArray[np.int32], NDArray[np.int64]]  # ids (T,) and offsets (N + 1,)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the texts of a UTF-8 file, one per line, without blank lines.

    Raises DataError for a line that is not UTF-8 and for a file without texts.
    """
    empty = True
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path} line {number} is not UTF-8 at byte {error.start}: save the file as UTF-8"
                ) from None
            if text:
                empty = False
                yield text
    if empty:
        raise DataError(f"{path} contains no text; expected one text per line")


def write_texts(folder: Path, view: View, further: Path | None) -> None:
    """Write the training texts of `view` and the texts of the file `further` into `folder`, batch by batch.

    Each of the parts `train` and `held` (one text in HELD_OUT_INTERVAL) has the arrays `ids` (T,), `starts` (T,), true
    where a word begins, and `offsets` (N + 1,).
    """
    tokenizer = load(view.tokenizer_json)
    words = WordStarts(vocabulary_of(tokenizer), language=view.language, pieces=view.tokenizer == "wordpiece")
    count = 0
    with ExitStack() as stack:
        files = {
            part: {
                kind: stack.enter_context(NpyWriter(folder / f"{part}.{kind}.npy", dtype))
                for kind, dtype in DTYPES.items()
            }
            for part in ("train", "held")
        }
        for part in files.values():
            part["offsets"].append(np.zeros(1, np.int64))
        for ids, offsets in _batches(view, TextEncoder(tokenizer), further):
            starts, lengths = words.find(ids, offsets), np.diff(offsets)
            held = (count + np.arange(len(lengths))) % HELD_OUT_INTERVAL == 0
            for name, rows in (("train", ~held), ("held", held)):
                _append(files[name], ids, starts, lengths, rows)
            count += len(lengths)


def _batches(view: View, encoder: TextEncoder, further: Path | None) -> Iterator[Batch]:
    train = view.split("train")
    for first in range(0, len(train), BATCH):
        edges = train.offsets[first : first + BATCH + 1]
        yield train.ids[edges[0] : edges[-1]], edges - edges[0]
    lines = iter(()) if further is None else read_lines(further)
    while texts := list(islice(lines, BATCH)):
        encoded = encoder.encode(texts, NO_LIMIT)
        yield encoded.ids, encoded.offsets


def _append(
    files: dict[str, NpyWriter],
    ids: NDArray[np.int32],
    starts: NDArray[np.bool_],
    lengths: NDArray[np.int64],
    rows: NDArray[np.bool_],
) -> None:
    """Append the texts selected by `rows` (N,) of a batch."""
    tokens = np.repeat(rows, lengths)
    offsets = files["ids"].length + np.cumsum(lengths[rows])
    for name, values in {"ids": ids[tokens], "starts": starts[tokens], "offsets": offsets}.items():
        files[name].append(values)
