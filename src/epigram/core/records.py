"""Records: dataclasses that one stage writes to a JSON file and another stage reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from epigram.core.errors import DataError
from epigram.core.files import read_json

T = TypeVar("T")


def read_record(kind: type[T], path: Path) -> T:
    """Read a JSON file into the dataclass `kind`. Raises InputMissingError or DataError, which name the file."""
    from pydantic import TypeAdapter, ValidationError

    values: Any = read_json(path)
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"])
        raise DataError(
            f"{path} does not have the format of this version of epigram (at {where}); run dvc repro"
        ) from None
