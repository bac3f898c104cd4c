"""Rows of different lengths in one flat array, and array files that are memory-mapped or written piece by piece."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Generic, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import safetensors_errors

Scalar = TypeVar("Scalar", bound=np.generic)
Integers = NDArray[np.int64]


def lengths_of(rows: Sequence[Sized]) -> Integers:
    """Return the length of each of N rows, (N,)."""
    return np.fromiter(map(len, rows), np.int64, len(rows))


@dataclass(frozen=True)
class Ragged(Generic[Scalar]):
    """N rows of different lengths: row n is `values[offsets[n] : offsets[n + 1]]`.

    `values` (T, …) holds the values of all rows, one row after the other. `offsets` (N + 1,) starts at 0 and never
    decreases. Both may be memory-mapped.
    """

    values: NDArray[Scalar]
    offsets: Integers

    @classmethod
    def from_lengths(cls, values: NDArray[Scalar], lengths: NDArray[np.integer[Any]]) -> Ragged[Scalar]:
        """Return consecutive `values` (T, …) as rows of the given `lengths` (N,), which sum to T."""
        return cls(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)]))

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[Any]], dtype: DTypeLike) -> Ragged[Any]:
        """Return `rows` of numbers as arrays of `dtype`."""
        lengths = lengths_of(rows)
        return Ragged.from_lengths(np.fromiter(chain.from_iterable(rows), dtype, int(lengths.sum())), lengths)

    @classmethod
    def concatenate(cls, parts: Sequence[Ragged[Scalar]]) -> Ragged[Scalar]:
        """Return the rows of all `parts`, of which there is at least one."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls.from_lengths(np.concatenate([part.values for part in parts]), lengths)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: slice | NDArray[Any]) -> Ragged[Scalar]:
        """Return the rows of a slice with step 1, without a copy, or of an array of indices or booleans, as a copy."""
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            offsets = self.offsets[start : max(start, stop) + 1]
            return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])
        places = self.places(rows)
        return places.with_values(self.values[places.values])

    def places(self, rows: NDArray[Any]) -> Ragged[np.int64]:
        """Return the places in `values` of the values of `rows`, an array of indices or booleans."""
        starts, ends = self.offsets[:-1][rows], self.offsets[1:][rows]
        return ranges(starts, ends - starts)

    def __iter__(self) -> Iterator[NDArray[Scalar]]:
        """Return an iterator over the values of each row."""
        return (self.values[start:stop] for start, stop in pairwise(self.offsets.tolist()))

    @property
    def starts(self) -> Integers:
        """Index of the first value of each row, (N,)."""
        return self.offsets[:-1]

    @property
    def lengths(self) -> Integers:
        """Number of values of each row, (N,)."""
        return np.diff(self.offsets)

    def row_numbers(self) -> Integers:
        """Return the row of each value, (T,)."""
        return self.spread(np.arange(len(self)))

    def positions(self) -> Integers:
        """Return the position of each value in its row, from 0, (T,)."""
        return np.asarray(np.arange(self.offsets[-1]) - self.spread(self.starts))

    def spread(self, per_row: NDArray[Any]) -> NDArray[Any]:
        """Return `per_row` (N, …), repeated for each value of the row: (T, …)."""
        return np.repeat(per_row, self.lengths, axis=0)

    def sums(self) -> Integers:
        """Return the sum of each row of integers or booleans, (N, …)."""
        totals = np.zeros((len(self.values) + 1, *self.values.shape[1:]), dtype=np.int64)
        np.cumsum(self.values, axis=0, out=totals[1:])
        return np.asarray(np.diff(totals[self.offsets], axis=0))

    def with_values(self, values: NDArray[Any]) -> Ragged[Any]:
        """Return rows of the same lengths with other `values` (T, …)."""
        return Ragged(values, self.offsets)

    def truncate(self, max_length: int) -> Ragged[Scalar]:
        """Return the first `max_length` values of each row."""
        kept = np.minimum(self.lengths, max_length)
        return Ragged.from_lengths(self.values[self.positions() < max_length], kept)

    def fill_empty(self, value: int) -> Ragged[Scalar]:
        """Return the rows with one `value` in each row that is empty."""
        empty = self.starts[self.lengths == 0]
        return Ragged.from_lengths(np.insert(self.values, empty, value, axis=0), np.maximum(self.lengths, 1))


def ranges(starts: Integers, lengths: Integers) -> Ragged[np.int64]:
    """Return rows of consecutive integers: row n is `starts[n]`, `starts[n]` + 1, …, (N rows of the given lengths)."""
    rows = Ragged.from_lengths(np.arange(lengths.sum()), lengths)
    return rows.with_values(rows.values + rows.spread(starts - rows.starts))


TYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"{letter}{8 * size}": np.dtype(f"{letter.lower()}{size}") for letter in "UI" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"f{size}") for size in (2, 4, 8)},
}  # data types of safetensors


def read_array(path: Path) -> NDArray[Any]:
    """Open a .npy file as a memory-mapped array; pickled objects are refused.

    Raises InputMissingError if the file is missing and DataError if it is damaged.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # numpy warns about headers written by Python 2
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)  # noqa: TID251
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run the stage that writes it (dvc repro)") from None
    except OSError:
        raise
    except Exception as error:  # numpy parses the header as Python code, which can raise any error
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} is not a valid .npy file ({reason}): delete it and run dvc repro") from None
    return array


def map_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Open the arrays of a safetensors file, memory-mapped.

    Raises InputMissingError if the file is missing and DataError if it is damaged.
    """
    from safetensors import safe_open

    with safetensors_errors(path), safe_open(path, "np") as file:  # refuses a header that does not fit the file
        names = [*file.keys()]
    content = np.memmap(path, np.uint8, "r")
    begin = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8:begin].tobytes())
    if other := {header[name]["dtype"] for name in names} - TYPES.keys():
        raise DataError(f"{path} has arrays of type {', '.join(sorted(other))}: delete it and run dvc repro")
    return {name: _array(content[begin:], **header[name]) for name in names}


def _array(data: NDArray[np.uint8], dtype: str, shape: list[int], data_offsets: tuple[int, int]) -> NDArray[Any]:
    """Return one array of the `data` of a safetensors file."""
    first, last = data_offsets
    return data[first:last].view(TYPES[dtype]).reshape(shape)


class NpyWriter:
    """Writer that appends rows to a .npy file; leaving the `with` block writes the final length into the header."""

    def __init__(self, path: Path, dtype: DTypeLike, row: tuple[int, ...] = ()) -> None:
        self.length = 0
        self._dtype = np.dtype(dtype)
        self._row = row
        self._file: IO[bytes] = path.open("wb")
        self._write_header()

    def append(self, values: NDArray[Any]) -> None:
        """Append `values`, (n, *row)."""
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).tobytes())
        self.length += len(values)

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        """Write the header; its size is the same for every length, because the format pads for a growing first axis."""
        shape = (self.length, *self._row)
        header = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._file, header)


class RaggedWriter:
    """Writer that appends rows of different lengths to a file of values and a file of offsets."""

    def __init__(self, values: NpyWriter, offsets: NpyWriter) -> None:
        self._values, self._offsets = values, offsets
        offsets.append(np.zeros(1, np.int64))

    def append(self, rows: Ragged[Any]) -> None:
        """Append `rows`; their offsets are shifted by the number of values already written."""
        self._offsets.append(rows.offsets[1:] + self._values.length)
        self._values.append(rows.values)
