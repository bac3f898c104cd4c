"""A stage takes as many slots of the flow as it has threads."""

from __future__ import annotations

import threading
from pathlib import Path

import yaml

from epigram.runner.scheduling.planned_systems import read_systems
from epigram.runner.scheduling.slots import Slots, slots_by_system
from epigram.training.distributed.resources import available_cores


def test_a_large_stage_takes_its_threads_and_never_more_than_all() -> None:
    slots = Slots(4, {"bert": 8, "textcnn": 2})
    assert [slots.count(name) for name in ("train@bert", "prune@textcnn", "encode@token", "compare")] == [4, 2, 1, 1]


def test_a_large_stage_runs_alone_and_two_never_block_each_other() -> None:
    slots, together, most = Slots(2, {"bert": 2, "roberta": 2}), [], []
    guard = threading.Lock()

    def work(stage: str) -> None:
        for _ in range(50):
            with slots.acquire(stage):
                with guard:
                    together.append(stage)
                    most.append(tuple(together))
                with guard:
                    together.remove(stage)

    names = ["train@bert", "train@roberta", "train@textcnn", "train@dpcnn"]
    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    large = {"train@bert", "train@roberta"}
    assert all(len(seen) == 1 for seen in most if large & set(seen))
    assert max(map(len, most)) <= 2
    assert slots.free == 2


def test_slots_are_freed_when_a_stage_fails() -> None:
    slots = Slots(2, {"bert": 2})
    try:
        with slots.acquire("train@bert"):
            raise ValueError
    except ValueError:
        pass
    assert slots.free == 2


def test_systems_on_a_checkpoint_need_all_cores(tmp_path: Path) -> None:
    params = {
        "dataset": "pocket_zh",
        "seeds": [0],
        "views": {"token": {"tokenizer": "token"}, "pieces": {"tokenizer": "wordpiece", "checkpoint": "m"}},
        "systems": {
            "bert": {"view": "pieces"},
            "textcnn": {"view": "token"},
            "dpcnn": {"view": "token", "train": {"threads": 3}},
            "tfidf_svm": {"view": "token"},
            "embedding_linear": {"view": "pieces"},
        },
    }
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(params))
    cores = available_cores()
    assert slots_by_system(read_systems(path)) == {"bert": cores, "textcnn": 1, "dpcnn": 3, "embedding_linear": cores}


def test_a_student_has_the_threads_of_one_process(tmp_path: Path) -> None:
    params = {
        "dataset": "pocket_zh",
        "seeds": [0],
        "views": {"token": {"tokenizer": "token"}},
        "systems": {
            "textcnn": {"view": "token"},
            "small": {"view": "token", "recipe": "textcnn", "teacher": "runs/first/model"},
        },
        "train": {"processes": 3},
    }
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(params))
    assert slots_by_system(read_systems(path)) == {"textcnn": 3, "small": 1}


def test_a_file_of_another_revision_needs_one_slot_a_stage(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("systems: {unknown_system: {}}\n")
    assert slots_by_system(read_systems(path)) == {}
