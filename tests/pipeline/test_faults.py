"""A few faults of the drill: the next run writes the same outputs. `make repair` repairs DVC's own files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from epigram.runner.dvc import adapter, graph, repair
from tests.drill.bench import NEURAL, Bench, prepare
from tests.drill.faults import FAULTS
from tests.drill.trial import run
from tests.support.toy import Toy

pytestmark = [pytest.mark.slow, pytest.mark.extended]

INJECTED = [
    ("kill -9 of a stage alone", "3"),
    ("a damaged output", "1"),
    ("a damaged file of DVC's cache", "8"),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("drill")
    bench = Bench(folder / "bench", prepare(folder, systems=(NEURAL,)), "", mounted=False)
    yield bench
    bench.close()


@pytest.mark.parametrize(("name", "seed"), INJECTED)
def test_a_fault_costs_nothing(bench: Bench, name: str, seed: str) -> None:
    trials, fault = [], next(fault for fault in FAULTS if fault.name == name)
    for seed_again in (seed, f"{seed} again", f"{seed} once more", f"{seed} at last"):
        trials.append(run(bench, 0, fault, seed_again))
        assert not trials[-1].losses, str(trials[-1])
        if trials[-1].observed:  # a fast machine may finish before the fault
            return
    pytest.fail("\n".join(map(str, trials)))


def test_a_dvc_lock_that_was_cut_off_costs_no_work(done: Toy) -> None:
    path = done.root / "dvc.lock"
    before = path.read_text()
    path.write_text(before[: before.rindex("outs:") + 3])
    assert len(graph.read(done.root)) == 6
    assert (done.root / repair.DAMAGED_LOCK_FILE).exists()
    done.shell("dvc", "repro", "--quiet")
    assert path.read_text() == before
    assert done.journal() == []


def test_a_table_of_locks_that_was_cut_off_stops_nobody(done: Toy) -> None:
    path = done.root / ".dvc/tmp/rwlock"
    path.write_text('{"write": {"')
    assert repair.repair_records(done.root) == ["removed .dvc/tmp/rwlock, which was unreadable"]
    assert repair.repair_records(done.root) == []
    assert not path.exists()


def test_a_damaged_file_of_the_cache_is_made_again(done: Toy) -> None:
    text = (done.root / "out/fit/mlp/result.txt").read_bytes()
    copy = next(path for path in adapter.cache_folder(done.root).glob("??/*") if path.read_bytes() == text)
    copy.chmod(0o644)
    copy.write_bytes(text[:-1])
    copy.chmod(0o444)
    assert repair.remove_damaged_outputs(done.root, ["cut@token", "fit@mlp"]) == ["out/fit/mlp"]
    done.shell("dvc", "repro", "--quiet")
    assert done.journal() == ["fit@mlp"]
    assert copy.read_bytes() == (done.root / "out/fit/mlp/result.txt").read_bytes() == text
