"""Tests of the number of processes that train a system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from epigram.core.errors import ParameterError
from epigram.models.settings import System
from epigram.recipes.registry import RECIPES
from epigram.text.settings import ViewSettings
from epigram.training.check_system import check_student, check_system
from epigram.training.config import TrainingConfig
from epigram.training.distributed.resources import resolve_processes
from epigram.training.preflight import placeholder_spec

DATA = placeholder_spec(ViewSettings(), multi=False, tokens=False)
STUDENT = System(view="v", recipe="textcnn", teacher="runs/first/model", train={"processes": 2})


def resolved(
    system: str = "textcnn", *, processes: int | str = 1, batch_size: int = 64, gpus: int = 0, **options: Any
) -> int:
    config = TrainingConfig(processes=processes, batch_size=batch_size)  # type: ignore[arg-type]
    return int(resolve_processes(config, RECIPES[system], **{"folds": 0, **options}, gpus=gpus).processes)


def test_one_process_is_the_default_whatever_the_machine() -> None:
    assert TrainingConfig().processes == 1
    assert resolved(gpus=8) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"gpus": 0}, 1),
        ({"gpus": 8}, 8),
        ({"gpus": 8, "batch_size": 3}, 3),
        ({"gpus": 8, "folds": 5}, 1),
        ({"gpus": 8, "system": "tfidf_svm"}, 1),
        ({"gpus": 8, "system": "setfit"}, 1),
        ({"gpus": 8, "system": "embedding_linear"}, 1),
    ],
)
def test_auto_is_the_number_of_gpus_where_several_processes_can_train(options: dict[str, int], expected: int) -> None:
    assert resolved(processes="auto", **options) == expected  # type: ignore[arg-type]


def test_without_a_gpu_any_number_trains_on_the_cpu() -> None:
    assert resolved(processes=4) == 4
    assert resolved(processes=4, gpus=4, batch_size=4) == 4


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"folds": 5}, "train has folds, which are trained in one process; set it to at most 1"),
        ({"batch_size": 3}, "train.batch_size is 3; set it to at most 3"),
        ({"gpus": 2}, "each process needs its own GPU, of which there are 2; set it to at most 2"),
    ],
)
def test_an_impossible_number_is_refused(options: dict[str, int], reason: str) -> None:
    with pytest.raises(ParameterError) as error:
        resolved(processes=4, **options)
    assert str(error.value) == f"params.yaml: train.processes is 4, but {reason}"


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (
            lambda: check_system("x", System(view="v", recipe="tfidf_svm", train={"processes": 2}), {}, DATA),
            "params.yaml: systems.x.train.processes has no effect, because the model linear_svm is not trained by",
        ),
        (
            lambda: check_student("x", STUDENT, {}, DATA, "texts"),
            "params.yaml: systems.x.train.processes has no effect, because a student is trained in one process",
        ),
    ],
    ids=["model without gradients", "student"],
)
def test_a_setting_of_the_system_without_effect_is_refused(check: Callable[[], object], reason: str) -> None:
    with pytest.raises(ParameterError) as error:
        check()
    assert str(error.value).startswith(reason)


def test_the_number_of_a_launcher_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert resolved() == resolved(processes="auto") == resolved(processes=4) == 4
    with pytest.raises(ParameterError, match=r"train.processes is 2, but torchrun has started 4 processes"):
        resolved(processes=2)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"folds": 3}, "train has folds"), ({"taught": True}, "a student"), ({"system": "random"}, "random")],
)
def test_a_launcher_is_refused_where_one_process_trains(
    options: dict[str, int], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ParameterError, match=rf"{reason}.* trained in one process; start without torchrun"):
        resolved(**options)  # type: ignore[arg-type]
