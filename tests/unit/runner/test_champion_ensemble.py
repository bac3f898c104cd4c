"""Tests that an ensemble can be the champion: a damaged member is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from epigram.runner.champions.champion import _is_intact, model_hash
from tests.support.linear_models import ensemble_of_svms


@pytest.mark.parametrize("name", ["members/first/model.safetensors", "members/second/manifest.json", "labels.json"])
def test_a_changed_or_missing_file_of_a_member_is_noticed(name: str, tmp_path: Path) -> None:
    folder = ensemble_of_svms(tmp_path)
    expected = model_hash(folder)
    assert _is_intact(folder, expected)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content + b" ")
    assert not _is_intact(folder, expected)
    (folder / name).unlink()
    assert not _is_intact(folder, expected)
