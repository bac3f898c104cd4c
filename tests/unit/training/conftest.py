"""The encoded corpus of pairs, and a folder for the resume state of a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from epigram.text.pos.pos_table import build, save
from epigram.text.settings import (
    AugmentSettings,
    EncodeSettings,
    PosTableSettings,
    ViewSettings,
)
from epigram.workflow.augment import write_prompt
from epigram.workflow.encode import encode_view
from tests.support.pretraining import CORPUS
from tests.support.text_samples import validated


@pytest.fixture
def own_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder of the test, because two processes cannot use the same resume state."""
    monkeypatch.chdir(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def encoded_view(tmp_path_factory: pytest.TempPathFactory) -> Callable[[ViewSettings], Path]:
    """Return a function that encodes the corpus of pairs in any view."""
    folder = tmp_path_factory.mktemp("encoded")
    validated(folder / "validated", "en", CORPUS)
    (folder / "pos").mkdir()
    save(build(PosTableSettings()), folder / "pos", {})
    write_prompt(AugmentSettings(), folder / "validated", folder / "augmented")

    def run(view: ViewSettings) -> Path:
        out = folder / f"{view.tokenizer}-{view.prompt}-{view.pretrain is not None}"
        if not out.exists():
            places = (folder / "validated", folder / "augmented", folder / "pos", out)
            encode_view("v", view, EncodeSettings(), *places)
        return out

    return run
