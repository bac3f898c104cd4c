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
            ids=self._array(f"{name}.ids.npy", np.int32, (int(offsets[-1]),), below=self.vocabulary),
            offsets=offsets,
            labels=self._array(
                f"{name}.labels.npy",
                np.int64 if single else np.uint8,
                shape,
                below=len(self.labels) if single else 2,
            ),
            rows=rows,
            in_train=None if name == "train" else self._array(f"{name}.in_train.npy", np.bool_, (count,)),
        )

    def _array(
        self, name: str, dtype: type, shape: tuple[int, ...] | None = None, below: int | None = None
    ) -> NDArray[Any]:
        """A file of the view, of type `dtype` and of `shape`, its values from 0 and `below` a bound."""
        path = self.folder / name
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise InputMissingError(f"{path} is missing: run dvc repro encode@{self.view}") from None
        except (ValueError, EOFError) as error:
            raise DataError(f"{path} is not a whole array ({error}): delete it and run dvc repro") from None
        if array.dtype != dtype or shape not in {None, array.shape}:
            raise DataError(f"{path} holds {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}: run dvc repro")
        if below is not None and array.size and not 0 <= int(array.min()) <= int(array.max()) < below:
            raise DataError(f"{path} holds values that are not from 0 to {below - 1}: delete it and run dvc repro")
        return array
