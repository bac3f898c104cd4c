"""Fixtures shared by the tests of encoded views."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from epigram.text.pos.pos_table import build, save
from epigram.text.settings import PosTableSettings
from tests.support.text_samples import encoded_in


@pytest.fixture(scope="session")
def pos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a part-of-speech table that is built without a corpus."""
    folder = tmp_path_factory.mktemp("pos")
    save(build(PosTableSettings()), folder, {})
    return folder


@pytest.fixture
def encoded(tmp_path: Path, pos: Path) -> Any:
    """Return a function that encodes rows in a view; all calls use the same folder."""
    return partial(encoded_in, tmp_path, pos)
