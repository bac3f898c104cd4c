"""Flat arrays: places within their groups, and .npy files that grow while they are written, so that memory does not."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from pithy.errors import DataError, InputMissingError


def within(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """0, 1, … of each group, groups of `counts` one after the other."""
    places: NDArray[np.int64] = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return places


def read_array(path: Path) -> NDArray[Any]:
    """A .npy file, memory-mapped; nothing in it is run. Raises InputMissingError or DataError."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of headers that an early Python would have written
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run the stage that writes it (dvc repro)") from None
    except OSError:
        raise
    except Exception as error:  # a broken header brings out what the tokenizer of Python's own code raises
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} is not a whole array ({reason}): delete it and run dvc repro") from None
    return array


class NpyWriter:
    """Appends rows to an .npy file; its header is set right on leaving the `with` block."""

    def __init__(self, path: Path, dtype: DTypeLike, row: tuple[int, ...] = ()) -> None:
        self.length = 0
        self._dtype = np.dtype(dtype)
        self._row = row
        self._file: IO[bytes] = path.open("wb")
        self._header()

    def append(self, values: NDArray[Any]) -> None:
        """Write `values`, (n, *row), behind what is there."""
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).tobytes())
        self.length += len(values)

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.seek(0)
        self._header()
        self._file.close()

    def _header(self) -> None:
        """The header keeps its size for every length: the format pads for a growing first axis."""
        shape = (self.length, *self._row)
        facts = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._file, facts)
