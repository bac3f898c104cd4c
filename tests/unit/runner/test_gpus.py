"""GPUs of a machine, found without PyTorch, and the stages that get them; the driver's files and program are faked."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from epigram.core.errors import ParameterError
from epigram.recipes.registry import RECIPES
from epigram.runner.dvc.graph import Graph, Stage
from epigram.runner.scheduling import gpus
from epigram.runner.scheduling.gpus import GpuPool, gpus_by_stage, stages_per_gpu, visible_gpus
from epigram.runner.scheduling.planned_systems import PlannedSystem
from epigram.runner.scheduling.slots import Slots, set_needs, slots_by_system
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.training.config import TrainingConfig


@pytest.fixture(autouse=True)
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the faked folder of device files, without a GPU."""
    folder = tmp_path / "dev"
    folder.mkdir()
    monkeypatch.setattr(gpus, "DEVICES", folder)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    monkeypatch.delenv(gpus.SHARING, raising=False)
    return folder


def add_devices(folder: Path, count: int) -> None:
    for name in (*map(str, range(count)), "ctl", "-uvm", "-caps"):
        (folder / f"nvidia{name}").touch()


def test_the_gpus_are_those_with_a_device_file(devices: Path) -> None:
    assert visible_gpus() == ()
    add_devices(devices, 3)
    assert visible_gpus() == ("0", "1", "2")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            "echo 'GPU 0: H100 (UUID: GPU-1)'\necho '  MIG 1g: (UUID: MIG-2)'\necho 'GPU 1: H100 (UUID: GPU-3)'",
            ("0", "1"),
        ),
        ("echo 'NVIDIA-SMI has failed'\nexit 9", ()),
    ],
)
def test_without_device_files_the_program_of_the_driver_is_asked(
    script: str, expected: tuple[str, ...], tmp_path: Path
) -> None:
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert visible_gpus() == expected


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ("1, 2", ("1", "2")),
        ("GPU-8f,MIG-3", ("GPU-8f", "MIG-3")),
        ("", ()),
        ("-1", ()),
        ("2,-1,0", ("2",)),
    ],
)
def test_gpus_that_are_hidden_are_not_used(
    allowed: str, expected: tuple[str, ...], devices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(gpus.VISIBLE, allowed)
    assert visible_gpus() == (), "the variable makes no GPU"
    add_devices(devices, 3)
    assert visible_gpus() == expected


def test_pytorch_is_not_imported_to_find_them() -> None:
    lines = ["import sys", "from epigram.runner.scheduling.gpus import visible_gpus", "visible_gpus()"]
    program = "\n".join([*lines, "assert 'torch' not in sys.modules"])
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", ""])
def test_the_number_of_stages_that_share_a_gpu_is_checked(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stages_per_gpu() == 1
    monkeypatch.setenv(gpus.SHARING, "3")
    assert stages_per_gpu() == 3
    monkeypatch.setenv(gpus.SHARING, text)
    with pytest.raises(ParameterError, match=f"invalid EPIGRAM_STAGES_PER_GPU='{text}'"):
        stages_per_gpu()


def planned(recipe: str, **train: object) -> PlannedSystem:
    config = TrainingConfig(**train)  # type: ignore[arg-type]
    return PlannedSystem(recipe=RECIPES[recipe], config=config, checkpoint=None)


SYSTEMS = {
    "svm": planned("tfidf_svm"),
    "one": planned("textcnn"),
    "two": planned("textcnn", processes=2),
    "all": planned("textcnn", processes="auto"),
    "many": planned("textcnn", processes=9),
}


def stage(name: str, gpus: str | None = None) -> Stage:
    return Stage(name, frozenset(), gpus=gpus)


def graph() -> Graph:
    found = [stage("encode@token"), stage("pretrain@token", "one"), stage("compare")]
    found += [
        stage(f"{kind}@{name}", need) for name in SYSTEMS for kind, need in (("fit", "processes"), ("cut", "one"))
    ]
    return Graph({each.name: each for each in found})


def test_a_stage_has_a_gpu_or_one_for_each_process_as_dvc_yaml_says() -> None:
    needed = gpus_by_stage(graph(), SYSTEMS, 4)
    assert needed == {
        "pretrain@token": 1,
        **{f"cut@{name}": 1 for name in ("one", "two", "all", "many")},
        **{"fit@one": 1, "fit@two": 2, "fit@all": 4, "fit@many": 1},
    }
    assert gpus_by_stage(graph(), SYSTEMS, 0) == {}


def test_a_stage_takes_the_threads_of_all_its_processes() -> None:
    assert slots_by_system(SYSTEMS) == {"one": 1, "two": 2, "all": 1, "many": 9}
    assert slots_by_system(SYSTEMS, gpus=4)["all"] == 4


def validated(folder: Path, folds: int) -> None:
    """Write what the stage `validate` writes about train, which has so many `folds`."""
    counts = {"train": 9, "dev": 0, "test": 3}
    ValidatedCorpus(
        name="x", language="en", task="single", labels=["a", "b"], token_labels=[], tokens_only=False, rows=counts,
        folds=folds,
    ).write(folder)  # fmt: skip


def test_a_training_on_folds_has_one_process(tmp_path: Path) -> None:
    slots = Slots(9, gpus=GpuPool(("0", "1", "2", "3")))
    set_needs(slots, graph(), SYSTEMS, 4, tmp_path)
    assert (slots.gpus.needed["fit@all"], slots.count("fit@all")) == (4, 4), "nothing is known of the data yet"
    validated(tmp_path, folds=5)
    set_needs(slots, graph(), SYSTEMS, 4, tmp_path)
    assert {name: slots.gpus.needed[f"fit@{name}"] for name in ("one", "two", "all")} == {"one": 1, "two": 1, "all": 1}
    assert slots.count("fit@all") == 1
    validated(tmp_path, folds=0)
    set_needs(slots, graph(), SYSTEMS, 4, tmp_path)
    assert (slots.gpus.needed["fit@all"], slots.count("fit@all")) == (4, 4)


def test_on_a_machine_without_a_gpu_the_environment_is_not_changed() -> None:
    with Slots(2).acquire("fit@one") as environment:
        assert environment == {}


def test_no_two_stages_have_one_gpu_and_the_others_see_none() -> None:
    needed = {"fit@a": 2, "fit@b": 1, "fit@c": 1, "fit@d": 1}
    slots = Slots(8, gpus=GpuPool(("3", "5"), needed))
    guard, running, seen = threading.Lock(), list[str](), dict[str, set[str]]()

    def work(name: str) -> None:
        for _ in range(30):
            with slots.acquire(name) as environment:
                own = [gpu for gpu in environment[gpus.VISIBLE].split(",") if gpu]
                with guard:
                    assert len(own) == needed.get(name, 0)
                    assert not set(own) & set(running)
                    running.extend(own)
                    seen.setdefault(name, set()).add(environment[gpus.VISIBLE])
                time.sleep(0.001)
                with guard:
                    for gpu in own:
                        running.remove(gpu)

    failures: list[BaseException] = []

    def checked(name: str) -> None:
        try:
            work(name)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=checked, args=(name,), daemon=True) for name in [*needed, "encode@token"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures
    assert seen["encode@token"] == {""}
    assert seen["fit@a"] <= {"3,5", "5,3"}
    assert set().union(*(seen[name] for name in ("fit@b", "fit@c", "fit@d"))) <= {"3", "5"}
    assert set(slots.gpus.stages.values()) == {0}


def test_stages_share_gpus_only_if_they_are_told_to() -> None:
    needed = {"fit@a": 1, "fit@b": 1, "fit@c": 1, "fit@d": 2}
    pool = GpuPool(("0", "1"), needed)
    assert pool.take("fit@a") == ("0",)
    assert not pool.fits("fit@d")
    assert pool.take("fit@b") == ("1",)
    assert not pool.fits("fit@c")
    shared = GpuPool(("0", "1"), needed, sharing=2)
    assert [shared.take(name) for name in ("fit@a", "fit@b", "fit@c")] == [("0",), ("1",), ("0",)]
    assert not shared.fits("fit@d"), "its two processes need two GPUs, of which one is full"
    shared.put_back(("0",))
    assert shared.fits("fit@d")


def test_a_stage_that_needs_more_gpus_than_there_are_waits_for_all_of_them() -> None:
    pool = GpuPool(("0", "1"), {"fit@a": 4})
    assert pool.fits("fit@a")
    assert pool.environment(pool.take("fit@a")) == {gpus.VISIBLE: "0,1"}
