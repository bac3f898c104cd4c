"""Arrays per token of an encoded view: ids and, depending on the corpus and the view, token labels and characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.arrays import NpyWriter, Ragged, RaggedWriter, lengths_of
from epigram.core.errors import DataError
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.text.tokens.alignment import NO_LABEL, find_misaligned, label_first_tokens, word_numbers
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.token_characters import CharacterEncoder

OFFSETS = {"ids": "offsets", "characters": "spelling"}  # name of the file of offsets for each ragged array


class EncodedBatch(NamedTuple):
    """Arrays of some rows: the ragged arrays by name, the flat ones, and the number of truncated rows."""

    ragged: dict[str, Ragged[Any]]
    arrays: dict[str, NDArray[Any]]
    truncated: int


class RowEncoder:
    """Encoder of corpus rows for one view; `characters` is empty if the view has none."""

    def __init__(self, encoder: TextEncoder, corpus: ValidatedCorpus, characters: str, max_length: int) -> None:
        self.unk_id = encoder.unk_id
        self._encoder, self._corpus, self._max_length = encoder, corpus, max_length
        self._character_encoder = CharacterEncoder(characters) if characters else None

    @property
    def columns(self) -> list[str]:
        """The columns that `encode` needs."""
        return ["row", "text", *(["tokens", "token_labels"] if self._corpus.token_labels else [])]

    @property
    def types(self) -> dict[str, tuple[type, tuple[int, ...]]]:
        """The data type and the row shape of every array, row numbers included."""
        labels: dict[str, type] = {"token_labels": np.int16, "words": np.int32} if self._corpus.token_labels else {}
        spelling: dict[str, type] = {"characters": np.int32, "spelling": np.int64} if self._character_encoder else {}
        found = {"ids": np.int32, "offsets": np.int64, **labels, **spelling, "rows": np.int64}
        return {name: (dtype, ()) for name, dtype in found.items()}

    def encode(self, batch: pl.DataFrame) -> EncodedBatch:
        """Return the token arrays of `batch`. Raises DataError for token labels that do not match the tokens."""
        texts = batch["text"].to_list()
        if not self._corpus.token_labels and self._character_encoder is None:
            encoded = self._encoder.encode(texts, self._max_length)
            return EncodedBatch({"ids": encoded.ids}, {}, encoded.truncated)
        arrays: dict[str, NDArray[Any]] = {}
        tokens = self._encoder.encode_with_positions(texts, self._max_length)
        ragged = {"ids": tokens.ids}
        if self._corpus.token_labels:
            words, labels = self._words(batch)
            number = word_numbers(texts, words, tokens)
            arrays = {"token_labels": label_first_tokens(labels, number, tokens.ids), "words": number}
        if self._character_encoder is not None:
            ragged["characters"] = self._character_encoder.encode(texts, tokens)
        return EncodedBatch(ragged, arrays, tokens.truncated)

    def _words(self, batch: pl.DataFrame) -> tuple[list[list[str]], Ragged[np.int64]]:
        """Return the words of each row and their labels; a row without words is one unlabelled word."""
        counts, labelled = (batch[name].list.len().fill_null(0) for name in ("tokens", "token_labels"))
        if (unequal := counts != labelled).any():
            row, tokens, labels = (column.filter(unequal)[0] for column in (batch["row"], counts, labelled))
            raise DataError(
                f"{self._corpus.folder}: row {row} has {tokens} tokens and {labels} token labels: "
                "run dvc repro validate"
            )
        words = batch.select(pl.when(counts > 0).then("tokens").otherwise(pl.concat_list("text"))).to_series().to_list()
        if (index := find_misaligned(batch["text"].to_list(), words)) is not None:
            row = batch["row"][index]
            raise DataError(
                f"{self._corpus.folder}: the tokens of row {row} do not match its text: run dvc repro validate"
            )
        labels = batch["token_labels"].explode()  # null for a row without token labels
        ids = np.full(len(labels), NO_LABEL, dtype=np.int64)
        ids[labels.is_not_null().to_numpy()] = self._corpus.label_ids(labels.drop_nulls(), self._corpus.token_labels)
        return words, Ragged.from_lengths(ids, lengths_of(words))


@contextmanager
def array_files(
    folder: Path, split: str, types: Mapping[str, tuple[type, tuple[int, ...]]]
) -> Iterator[Callable[[EncodedBatch, Mapping[str, NDArray[Any]]], None]]:
    """Open the files of the arrays of a split in `folder`, and yield the function that appends a batch to them.

    `types` has the data type and the row shape of every array. The function takes the token arrays of the batch, and
    the other arrays.
    """
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(NpyWriter(folder / f"{split}.{name}.npy", dtype, row))
            for name, (dtype, row) in types.items()
        }
        writers = {name: RaggedWriter(files[name], files[other]) for name, other in OFFSETS.items() if name in files}

        def append(encoded: EncodedBatch, others: Mapping[str, NDArray[Any]]) -> None:
            for name, rows in encoded.ragged.items():
                writers[name].append(rows)
            for name, array in {**encoded.arrays, **others}.items():
                files[name].append(array)

        yield append
