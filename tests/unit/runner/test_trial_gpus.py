"""GPUs of the trials of a sweep; the driver's files are faked."""

from __future__ import annotations

import threading
import time
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import ParameterError
from epigram.models.settings import System
from epigram.runner.scheduling import gpus, slots
from epigram.runner.scheduling.slots import acquire_gpus, needed_gpus, share_gpus
from epigram.runner.workspace.settings import Settings
from epigram.text.settings import ViewSettings

VIEWS = {"token": ViewSettings(tokenizer="token")}


def settings(**systems: dict[str, Any]) -> Settings:
    found = {name: System(view="token", **values) for name, values in systems.items()}
    return Settings(dataset="toy", seeds=[0], views=VIEWS, systems=found)


NETWORK, SVM = settings(textcnn={}), settings(tfidf_svm={})
TRIALS = {"s-1": NETWORK, "s-2": NETWORK, "s-3": NETWORK}


@pytest.fixture(autouse=True)
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the faked folder of device files, with two GPUs."""
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / name).touch()
    monkeypatch.setattr(gpus, "DEVICES", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    monkeypatch.delenv(gpus.SHARING, raising=False)
    return tmp_path


def most_at_once(trials: dict[str, Settings]) -> tuple[int, set[str]]:
    """Run the trials in threads, as Prefect does; return the most that one GPU had at once, and the GPUs seen."""
    guard, running, most, seen = threading.Lock(), list[str](), [0], set[str]()

    def run(name: str) -> None:
        with acquire_gpus(name) as environment:
            own = [gpu for gpu in environment[gpus.VISIBLE].split(",") if gpu]
            with guard:
                running.extend(own)
                seen.add(environment[gpus.VISIBLE])
                most[0] = max([most[0], *map(running.count, own)])
            time.sleep(0.1)
            with guard:
                for gpu in own:
                    running.remove(gpu)

    with share_gpus(trials, len(trials)):
        threads = [threading.Thread(target=copy_context().run, args=(run, name), daemon=True) for name in trials]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    assert running == []
    return most[0], seen


def test_trials_in_parallel_have_a_gpu_each_and_wait_for_it() -> None:
    assert most_at_once(TRIALS) == (1, {"0", "1"})


def test_trials_share_a_gpu_if_stages_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpus.VISIBLE, "7")
    monkeypatch.setenv(gpus.SHARING, "3")
    assert most_at_once(TRIALS) == (3, {"7"})


def test_trials_without_a_network_see_no_gpu_and_wait_for_none() -> None:
    assert most_at_once({"s-1": SVM, "s-2": SVM, "s-3": SVM, "s-4": NETWORK}) == (1, {"", "0"})


@pytest.mark.parametrize(("count", "at_once"), [(0, 3), (2, 1)])
def test_nothing_changes_without_a_gpu_and_for_one_trial_at_a_time(count: int, at_once: int, devices: Path) -> None:
    for number in range(count, 2):
        (devices / f"nvidia{number}").unlink()
    with share_gpus(TRIALS, at_once), acquire_gpus("s-1") as environment:
        assert environment == {}


def test_after_the_sweep_no_gpus_are_shared() -> None:
    with share_gpus(TRIALS, 2):
        assert slots._trial_slots.get() is not None
    with acquire_gpus("s-1") as environment:
        assert environment == {}


def test_an_invalid_number_of_trials_for_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpus.SHARING, "0")
    with pytest.raises(ParameterError, match="invalid EPIGRAM_STAGES_PER_GPU"), share_gpus(TRIALS, 2):
        pass


@pytest.mark.parametrize(
    ("systems", "expected"),
    [
        ({"tfidf_svm": {}}, 0),
        ({"tfidf_svm": {}, "textcnn": {}}, 1),
        ({"textcnn": {"train": {"processes": "auto"}}}, 1),
        ({"textcnn": {"train": {"processes": 2}}, "dmsp": {}}, 2),
        ({"textcnn": {"train": {"unknown": 2}}}, 1),
    ],
)
def test_a_trial_needs_a_gpu_or_one_for_each_process(systems: dict[str, dict[str, Any]], expected: int) -> None:
    assert needed_gpus(settings(**systems)) == expected
