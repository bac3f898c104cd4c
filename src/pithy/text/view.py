"""An encoded view as training reads it: memory-mapped arrays and view.json. Needs only NumPy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pithy.errors import DataError, InputMissingError
from pithy.files import read_json, sha256


@dataclass(frozen=True)
class Split:
    """The N rows of a split, C labels."""

    ids: NDArray[np.int32]  # (tokens,): text token ids of all rows, without prefix and suffix
    offsets: NDArray[np.int64]  # (N + 1,): row n is ids[offsets[n] : offsets[n + 1]]
    labels: NDArray[Any]  # (N,) int64, or (N, C) uint8 where rows have several labels
    rows: NDArray[np.int64]  # (N,): row numbers in the whole corpus
    in_train: NDArray[np.bool_] | None  # (N,): the same text is also in train; None for train itself
    token_labels: NDArray[np.int16] | None = None  # (tokens,): on the first token of a word, -1 on any other
    words: NDArray[np.int32] | None = None  # (tokens,): number of the token's word in its row; beside token labels
    characters: NDArray[np.int32] | None = None  # token t is characters[spelling[t] : spelling[t + 1]]; 1 unknown
    spelling: NDArray[np.int64] | None = None  # (tokens + 1,); where the view spells its tokens

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class View:
    """view.json, and where its arrays are."""

    folder: Path
    view: str
    corpus: str
    language: str  # zh or en
    task: str  # single or multi
    labels: list[str]
    token_labels: list[str]  # the default one first; none where tokens are not labelled
    tokens_only: bool  # the labels of the texts are inferred from their tokens'
    tokenizer: str  # token or wordpiece
    checkpoint: str | None  # whose tokenizer it is; None for one made from the training texts
    vocabulary: int  # V
    pad_id: int
    unk_id: int
    mask_id: int | None
    cls_id: int | None
    sep_id: int | None
    prefix_ids: list[int]  # in front of every text: [CLS], prompt
    suffix_ids: list[int]  # behind every text: [SEP]
    max_length: int  # most text tokens of a row
    characters: str  # that spell the tokens, most frequent first: the k-th has the id k + 2; none: not spelled
    vectors: dict[str, Any] | None  # pretrained: file, width, found of the entries, share of the train tokens
    truncated: dict[str, int]  # rows a split that lost their end
    unknown: dict[str, float]  # share of unknown tokens a split

    @classmethod
    def load(cls, folder: Path) -> View:
        """Read view.json. Raises InputMissingError where it is missing, DataError where it is broken."""
        about = read_json(folder / "view.json")
        names = {field.name for field in fields(cls)} - {"folder"}
        if not isinstance(about, dict) or set(about) != names:
            raise DataError(f"{folder / 'view.json'} is not an encoded view: delete {folder} and run dvc repro")
        return cls(folder=folder, **about)

    @property
    def tokenizer_json(self) -> Path:
        """The tokenizer that made the ids."""
        return self.folder / "tokenizer.json"

    def fingerprint(self) -> str:
        """Hex digest of everything in the folder: equal fingerprints mean equal data."""
        files = sorted(path for path in self.folder.iterdir() if path.is_file())
        lines = "".join(f"{path.name} {sha256(path)}\n" for path in files)
        return hashlib.sha256(lines.encode()).hexdigest()

    def pos_weight(self) -> NDArray[np.float32]:
        """Part-of-speech weight of every vocabulary entry, (V,)."""
        return self._array("pos_weight.npy", np.float32, (self.vocabulary,))

    def vectors_array(self) -> NDArray[np.float32]:
        """Pretrained vector of every vocabulary entry, (V, E), NaN where it has none; only where `vectors` is given."""
        assert self.vectors is not None
        return self._array("vectors.npy", np.float32, (self.vocabulary, self.vectors["width"]))

    def split(self, name: str) -> Split:
        """The arrays of `train`, `dev` or `test`, memory-mapped.

        Raises InputMissingError for a missing file, DataError for arrays that do not belong together.
        """
        rows = self._array(f"{name}.rows.npy", np.int64)
        count = len(rows)
        single = self.task == "single"
        offsets = self._array(f"{name}.offsets.npy", np.int64, (count + 1,))
        shape = (count,) if single else (count, len(self.labels))
        return Split(
            ids=self._array(f"{name}.ids.npy", np.int32, (int(offsets[-1]),), 0, self.vocabulary),
            offsets=offsets,
            labels=self._array(
                f"{name}.labels.npy",
                np.int64 if single else np.uint8,
                shape,
                0,
                len(self.labels) if single else 2,
            ),
            rows=rows,
            in_train=None if name == "train" else self._array(f"{name}.in_train.npy", np.bool_, (count,)),
            **self._of_tokens(name, int(offsets[-1])),
        )

    def _of_tokens(self, split: str, tokens: int) -> dict[str, NDArray[Any]]:
        """The arrays that say more of each token than its id, where the view has them."""
        found = {}
        if self.token_labels:
            bounds = (-1, len(self.token_labels))
            found["token_labels"] = self._array(f"{split}.token_labels.npy", np.int16, (tokens,), *bounds)
            found["words"] = self._array(f"{split}.words.npy", np.int32, (tokens,))
        if self.characters:
            found["spelling"] = spelling = self._array(f"{split}.spelling.npy", np.int64, (tokens + 1,))
            bounds = (1, len(self.characters) + 2)
            found["characters"] = self._array(f"{split}.characters.npy", np.int32, (int(spelling[-1]),), *bounds)
        return found

    def _array(
        self, name: str, dtype: type, shape: tuple[int, ...] | None = None, lowest: int = 0, bound: int | None = None
    ) -> NDArray[Any]:
        """A file of the view, of type `dtype` and of `shape`, its values from `lowest` and below `bound`."""
        path = self.folder / name
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise InputMissingError(f"{path} is missing: run dvc repro encode@{self.view}") from None
        except (ValueError, EOFError) as error:
            raise DataError(f"{path} is not a whole array ({error}): delete it and run dvc repro") from None
        if array.dtype != dtype or shape not in {None, array.shape}:
            raise DataError(f"{path} holds {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}: run dvc repro")
        if bound is not None and array.size and not lowest <= int(array.min()) <= int(array.max()) < bound:
            raise DataError(f"{path} holds values that are not from {lowest} to {bound - 1}: delete it, run dvc repro")
        return array
