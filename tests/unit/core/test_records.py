"""A record is read as it was written; a file with other content is refused by name, with the field."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import write_json
from epigram.core.records import read_record


@dataclass(frozen=True)
class Point:
    depth: int


@dataclass(frozen=True)
class Record:
    points: list[Point]


def test_a_record_is_read_with_its_nested_records(tmp_path: Path) -> None:
    write_json(tmp_path / "r.json", {"points": [{"depth": 2}]})
    assert read_record(Record, tmp_path / "r.json") == Record([Point(2)])


def test_the_field_with_a_wrong_value_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / "r.json", {"points": [{"depth": 2}, {"depth": "deep"}]})
    with pytest.raises(DataError, match=r"r\.json does not have the format .* \(at points\.1\.depth\); run dvc repro"):
        read_record(Record, tmp_path / "r.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"r\.json is missing"):
        read_record(Record, tmp_path / "r.json")
