"""The encoded corpus of pairs, and a folder for the resume state of a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from epigram.text.settings import ViewSettings
from tests.support.pretraining import encode, write_corpus


@pytest.fixture
def own_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder of the test, because two processes cannot use the same resume state."""
    monkeypatch.chdir(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def encoded_view(tmp_path_factory: pytest.TempPathFactory) -> Callable[[ViewSettings], Path]:
    """Return a function that encodes the corpus of pairs in any view."""
    folder = tmp_path_factory.mktemp("encoded")
    write_corpus(folder)

    def run(view: ViewSettings) -> Path:
        name = f"{view.tokenizer}-{view.prompt}-{view.pretrain is not None}-{Path(view.checkpoint or '').name}"
        return folder / name if (folder / name).exists() else encode(folder, view, name)

    return run
