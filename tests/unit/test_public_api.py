"""Tests of the public names of `epigram`, and of the command without a subcommand."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import epigram
from epigram.inference.predictors.predictor import Predictor
from tests.support.linear_models import TRAIN, svm


def test_every_public_name_is_there_and_is_what_it_is_called() -> None:
    named = [name for name in epigram.__all__ if name != "__version__"]
    assert [getattr(epigram, name).__name__ for name in named] == named
    assert epigram.__version__ == version("epigram")
    assert set(epigram.__all__) <= set(dir(epigram))
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        epigram.lode  # noqa: B018


def test_a_loaded_model_predicts_as_the_predictor_does(tmp_path: Path) -> None:
    folder = svm(tmp_path, "en", TRAIN["en"])
    for path in (folder, str(folder)):
        assert epigram.load(path).predict(["nice soup", "large room"]) == Predictor(folder).predict(
            ["nice soup", "large room"]
        )
    with pytest.raises(epigram.InputMissingError):
        epigram.load(tmp_path / "absent")


def test_the_import_alone_loads_no_library() -> None:
    code = "import epigram, sys; sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'polars', 'typer')))"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("arguments", "said"), [([], "A project"), (["--version"], f"epigram {version('epigram')}\n")])
def test_the_bare_command_prints_its_help_and_version_the_version(arguments: list[str], said: str) -> None:
    command = [sys.executable, "-m", "epigram.cli", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said in ended.stdout
