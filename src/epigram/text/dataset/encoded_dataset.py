"""An encoded view as training reads it: memory-mapped arrays and view.json. Requires only NumPy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from epigram.core.arrays import Ragged, read_array
from epigram.core.config_types import find_fault, has_type
from epigram.core.errors import DataError
from epigram.core.files import read_json, sha256

UNLABELLED = "unlabelled"  # name of the texts without labels among the arrays
ENTRIES = "entries.json"  # vocabulary in the order of its ids, in a view whose tokens may be parts of words


def fold_folder(folder: Path, number: int) -> Path:
    """Return the folder of one fold of train, in the `folder` of the whole."""
    return folder / "folds" / str(number)


@dataclass(frozen=True)
class Split:
    """The N rows of a split, with C labels."""

    ids: Ragged[np.int32]  # text token ids of the rows, without prefix and suffix
    labels: NDArray[Any]  # (N,) int64, or (N, C) uint8 where rows have several labels
    rows: NDArray[np.int64]  # (N,): row numbers in the whole corpus
    in_train: NDArray[np.bool_] | None  # (N,): whether the text also occurs in train; None for train itself
    token_labels: NDArray[np.int16] | None = None  # (tokens,): label on the first token of a word, -1 elsewhere
    words: NDArray[np.int32] | None = None  # (tokens,): word number of the token in its row; set with token_labels
    characters: Ragged[np.int32] | None = None  # characters of each token; 1 is unknown

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class View:
    """Content of view.json, and the folder of the arrays."""

    folder: Path
    view: str
    corpus: str
    rows_digest: str  # SHA-256 of labels and rows of all splits, the same for every tokenization
    language: str  # zh or en
    task: str  # single or multi
    labels: list[str]
    label_tokens: list[list[int]]  # token ids of the name of each label; empty if the labels are not words
    token_labels: list[str]  # default label first; empty if tokens are not labelled
    tokens_only: bool  # text labels are inferred from token labels
    text_columns: list[str]  # columns of the table that made up the text
    join: str  # separator of these columns
    tokenizer: str  # token or wordpiece
    checkpoint: str | None  # source of the tokenizer; None if it is made from the training texts
    weights: str | None  # digest of the files of the checkpoint; None without one
    vocabulary: int  # V
    pad_id: int
    unk_id: int
    mask_id: int | None
    cls_id: int | None
    sep_id: int | None
    prefix_ids: list[int]  # ids before every text: [CLS], prompt
    suffix_ids: list[int]  # ids after every text: prompt, [SEP]
    max_length: int  # maximum number of text tokens in a row
    pos_words: dict[str, Any] | None  # fields of PosWords; None if every token is a word
    characters: str  # alphabet, most frequent first; character k has id k + 2; empty without characters
    folds: int  # folds of train; if there are any, dev has no rows
    unlabelled: dict[str, Any] | None  # texts without labels: file, texts, held_out and known (left out)
    vectors: dict[str, Any] | None  # pretrained vectors: file, width, found, of (entries), tokens (share of train)
    truncated: dict[str, int]  # truncated rows per split
    unknown: dict[str, float]  # share of unknown tokens per split

    @classmethod
    def load(cls, folder: Path) -> View:
        """Read view.json. Raises InputMissingError if it is missing and DataError if it is invalid."""
        content = read_json(folder / "view.json")
        hints = {name: hint for name, hint in get_type_hints(cls).items() if name != "folder"}
        if fault := find_fault(content, hints, "view"):
            raise DataError(
                f"{folder / 'view.json'} is not an encoded view ({fault}): delete {folder} and run dvc repro"
            )
        view = cls(folder=folder, **content)
        view._check_ids()
        return view

    def _check_ids(self) -> None:
        ids: list[int | None] = [*self.prefix_ids, *self.suffix_ids, *chain.from_iterable(self.label_tokens)]
        ids += [self.pad_id, self.unk_id, self.mask_id, self.cls_id, self.sep_id]
        if not all(index is None or 0 <= index < self.vocabulary for index in ids) or self.max_length < 1:
            raise DataError(f"{self.folder / 'view.json'} contains ids outside the vocabulary: run dvc repro")
        if len(self.label_tokens) not in {0, len(self.labels)}:
            raise DataError(f"{self.folder / 'view.json'} lacks tokens of labels: run dvc repro")

    @property
    def choosing(self) -> str:
        """Name of the split whose predictions choose among systems: dev, or train if it has folds."""
        return "train" if self.folds else "dev"

    @property
    def scoring(self) -> str:
        """Name of the split whose predictions are scored: test, or train if it has folds and test has no rows."""
        return "test" if len(self.split("test")) else self.choosing

    def fold(self, number: int) -> View:
        """Return the view of one fold: its dev is the fold, its train and vocabulary are from all other folds."""
        return View.load(fold_folder(self.folder, number))

    def fold_numbers(self) -> NDArray[np.int64]:
        """Return the fold of each row of train, (N,)."""
        rows = [self.fold(number).split("dev").rows for number in range(self.folds)]
        numbers, pooled = np.repeat(np.arange(self.folds), list(map(len, rows))), np.concatenate(rows)
        order = np.argsort(pooled)
        return numbers[order[np.searchsorted(pooled, self.split("train").rows, sorter=order)]]

    @property
    def tokenizer_json(self) -> Path:
        """Path of the tokenizer that produced the ids."""
        return self.folder / "tokenizer.json"

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of all files in the folder; equal fingerprints mean equal data."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        lines = "".join(f"{path.relative_to(self.folder).as_posix()} {sha256(path)}\n" for path in files)
        return hashlib.sha256(lines.encode()).hexdigest()

    def pos_weight(self) -> NDArray[np.float32]:
        """Return the part-of-speech weight of every vocabulary entry, (V,)."""
        weights = self._array("pos_weight.npy", np.float32, (self.vocabulary,))
        if not ((weights >= 0) & (weights <= 1)).all():
            raise DataError(f"{self.folder / 'pos_weight.npy'} contains weights outside 0 to 1: run dvc repro")
        return weights

    def entries(self) -> list[str]:
        """Return the vocabulary in the order of its ids; requires `pos_words`."""
        entries = read_json(self.folder / ENTRIES)
        if not has_type(entries, list[str]) or len(entries) != self.vocabulary:
            raise DataError(
                f"{self.folder / ENTRIES} is not the view's vocabulary: delete {self.folder} and run dvc repro"
            )
        return list(entries)

    def vectors_array(self) -> NDArray[np.float32]:
        """Return the pretrained vector of every vocabulary entry, (V, E), NaN if it has none; requires `vectors`."""
        assert self.vectors is not None
        if not has_type(self.vectors.get("width"), int):
            raise DataError(f"{self.folder / 'view.json'}: vectors.width is missing: run dvc repro")
        return self._array("vectors.npy", np.float32, (self.vocabulary, self.vectors["width"]))

    def split(self, name: str) -> Split:
        """Return the memory-mapped arrays of `train`, `dev` or `test`.

        Raises InputMissingError for a missing file and DataError for arrays that do not match each other.
        """
        rows = self._array(f"{name}.rows.npy", np.int64)
        count = len(rows)
        single = self.task == "single"
        ids = self._ragged(f"{name}.ids.npy", f"{name}.offsets.npy", count, 0, self.vocabulary)
        shape = (count,) if single else (count, len(self.labels))
        return Split(
            ids=ids,
            labels=self._array(
                f"{name}.labels.npy",
                np.int64 if single else np.uint8,
                shape,
                0,
                len(self.labels) if single else 2,
            ),
            rows=rows,
            in_train=None if name == "train" else self._array(f"{name}.in_train.npy", np.bool_, (count,)),
            **self._token_arrays(name, len(ids.values)),
        )

    def unlabelled_split(self) -> Split:
        """Return the arrays of the texts without labels, whose labels are all 0; requires `unlabelled`."""
        assert self.unlabelled is not None
        rows = self._array(f"{UNLABELLED}.rows.npy", np.int64)
        ids = self._ragged(f"{UNLABELLED}.ids.npy", f"{UNLABELLED}.offsets.npy", len(rows), 0, self.vocabulary)
        characters = self._spelling(UNLABELLED, len(ids.values)) if self.characters else None
        return Split(ids, np.zeros(len(rows), np.int64), rows, None, characters=characters)

    def _token_arrays(self, split: str, tokens: int) -> dict[str, Any]:
        """Return the token arrays other than the ids: token labels and characters, if the view has them."""
        arrays: dict[str, Any] = {}
        if self.token_labels:
            bounds = (-1, len(self.token_labels))
            arrays["token_labels"] = self._array(f"{split}.token_labels.npy", np.int16, (tokens,), *bounds)
            arrays["words"] = self._array(f"{split}.words.npy", np.int32, (tokens,), 0, 2**31)
        if self.characters:
            arrays["characters"] = self._spelling(split, tokens)
        return arrays

    def _spelling(self, split: str, tokens: int) -> Ragged[np.int32]:
        """Return the characters of the tokens of a split."""
        files = (f"{split}.characters.npy", f"{split}.spelling.npy")
        return self._ragged(*files, tokens, 1, len(self.characters) + 2)

    def _ragged(self, values: str, offsets: str, count: int, lowest: int, bound: int) -> Ragged[np.int32]:
        """Return `count` rows of int32 values in [`lowest`, `bound`), from a file of values and one of offsets."""
        index = self._array(offsets, np.int64, (count + 1,))
        if index[0] != 0 or (index[1:] < index[:-1]).any():
            raise DataError(f"{self.folder / offsets} has offsets that are not ascending: delete it and run dvc repro")
        return Ragged(self._array(values, np.int32, (int(index[-1]),), lowest, bound), index)

    def _array(
        self, name: str, dtype: type, shape: tuple[int, ...] | None = None, lowest: int = 0, bound: int | None = None
    ) -> NDArray[Any]:
        """Return an array of the view, checked for `dtype`, `shape`, and values in [`lowest`, `bound`)."""
        path = self.folder / name
        array = read_array(path)
        if array.dtype != dtype or shape not in {None, array.shape}:
            raise DataError(
                f"{path} contains {array.dtype} {array.shape}; expected {np.dtype(dtype)} {shape}: run dvc repro"
            )
        if bound is not None and array.size and not lowest <= int(array.min()) <= int(array.max()) < bound:
            raise DataError(f"{path} contains values outside {lowest} to {bound - 1}: delete it and run dvc repro")
        return array
