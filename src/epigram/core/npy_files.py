"""Array files that are memory-mapped, in .npy or safetensors format, or written piece by piece, in .npy format."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import safetensors_errors
from epigram.core.ragged import Ragged

TYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"{letter}{8 * size}": np.dtype(f"{letter.lower()}{size}") for letter in "UI" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"f{size}") for size in (2, 4, 8)},
}  # of safetensors


def read_array(path: Path) -> NDArray[Any]:
    """Open a .npy file as a memory-mapped array; pickled objects are refused.

    Raises InputMissingError if the file is missing and DataError if it is damaged.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # numpy warns about headers written by Python 2
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
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
