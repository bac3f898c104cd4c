"""A small model, and `epigram predict` with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from epigram.cli import app as cli
from tests.support.linear_models import TRAIN, svm


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a linear SVM of three classes, for English."""
    return svm(tmp_path_factory.mktemp("model"), "en", TRAIN["en"])


@pytest.fixture
def run(model: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that runs `epigram predict` with the model."""

    def command(*arguments: object) -> None:
        monkeypatch.setattr("sys.argv", ["epigram", "predict", str(model), *map(str, arguments)])
        cli.app()

    return command
