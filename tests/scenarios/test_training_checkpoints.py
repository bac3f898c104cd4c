"""When a checkpoint is written and which one is resumed, with a clock that the test sets."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from epigram.core.errors import ParameterError
from epigram.training import resume
from epigram.training.distributed import parallel
from epigram.training.loop import checkpoints
from epigram.training.loop.checkpoints import Checkpoints, checkpoint_or_stop
from epigram.training.loop.snapshot import Snapshot


class Clock:
    """Clock set by the test; every write takes `cost` seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: float = 0.0) -> None:
        self.now, write = 1000.0, checkpoints.write_tensors

        def slow(*given: object) -> None:
            self.now += cost
            write(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(checkpoints.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(checkpoints, "write_tensors", slow)


def state(number: int) -> Snapshot:
    return Snapshot({"weight": torch.tensor([float(number)])}, {"number": number})


def due_after(clock: Clock, made: Checkpoints) -> float:
    """Return the seconds until the next checkpoint is due, in steps of 0.1 s."""
    start = clock.now
    for tenth in range(2000):
        clock.now = start + tenth / 10
        if made.due:
            return tenth / 10
    raise AssertionError("never")


@pytest.mark.parametrize(("cost", "wanted"), [(0.0, 20.0), (0.1, 20.0), (1.0, 50.0), (2.0, 100.0)])
def test_checkpoints_are_20_seconds_apart_or_50_times_their_cost(
    cost: float, wanted: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(checkpoints.INTERVAL_VARIABLE, raising=False)
    clock = Clock(monkeypatch, cost)
    made = Checkpoints(tmp_path)
    assert due_after(clock, made) == 20.0
    made.save(1, state(1))
    assert due_after(clock, made) == pytest.approx(wanted, abs=0.11)


@pytest.mark.parametrize(("text", "wanted"), [("0", 0.0), ("5", 50.0), ("90", 90.0), ("-3", 0.0)])
def test_the_distance_may_be_set_and_zero_is_every_step(
    text: str, wanted: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(checkpoints.INTERVAL_VARIABLE, text)
    clock = Clock(monkeypatch, 1.0)
    made = Checkpoints(tmp_path)
    made.save(1, state(1))
    assert due_after(clock, made) == pytest.approx(wanted, abs=0.11)
    monkeypatch.setenv(checkpoints.INTERVAL_VARIABLE, "often")
    with pytest.raises(ParameterError, match="often"):
        Checkpoints(tmp_path)


def taken_up(folder: Path) -> int | None:
    """Return the number of the checkpoint that a new process finds."""
    found = Checkpoints(folder).latest()
    assert found is None or found.tensors["weight"].item() == found.facts["number"]
    return None if found is None else int(found.facts["number"])


def test_the_latest_whole_checkpoint_is_taken_up(tmp_path: Path) -> None:
    made = Checkpoints(tmp_path)
    for step in (7, 8, 10, 9):
        made.save(step, state(step))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000009", "step-00000010"]
    assert taken_up(tmp_path) == 10
    (tmp_path / "step-00000010/state.safetensors").write_bytes(b"")
    assert taken_up(tmp_path) == 9
    note = tmp_path / "step-00000009/state.json"
    note.write_text(note.read_text().replace('"number": 9', '"number": 5'))
    assert taken_up(tmp_path) is None
    assert list(tmp_path.iterdir()) == [], "what is damaged goes"


@pytest.mark.parametrize(
    ("due", "signal", "fit", "saved"),
    [
        (True, 0, True, True),
        (False, 0, True, False),
        (False, 15, True, True),
        (True, 15, False, False),
        (True, 0, False, False),
    ],
)
def test_a_pause_saves_where_it_is_time_or_the_end_is_asked_for(
    due: bool, signal: int, fit: bool, saved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Checkpoints(tmp_path)
    made.every = 0.0 if due else 1e9
    asked: list[int] = []
    monkeypatch.setattr(checkpoints, "raise_interrupt", asked.append)
    checkpoint_or_stop(made, signal, 3, lambda: state(3) if fit else None)
    assert (taken_up(tmp_path) == 3) is saved
    assert asked == ([signal] if signal else [])


# Parts of a batch


class Summed(torch.nn.Module):
    summed = True


@pytest.mark.parametrize(
    ("model", "pieces", "wanted"),
    [
        (torch.nn.Module(), 1, [(5, 1.0)]),
        (torch.nn.Module(), 2, [(3, 0.6), (2, 0.4)]),  # means are weighted by the number of texts
        (Summed(), 2, [(3, 1.0), (2, 1.0)]),  # sums are not
        (torch.nn.Module(), 9, [(1, 0.2)] * 5),
    ],
)
def test_pieces_of_a_batch_count_by_their_texts(
    model: torch.nn.Module, pieces: int, wanted: list[tuple[int, float]]
) -> None:
    found = list(parallel.split_batch(np.arange(5), model, pieces))
    assert [(len(rows), weight) for rows, weight in found] == wanted
    assert np.concatenate([rows for rows, _ in found]).tolist() == list(range(5))


def test_of_two_processes_each_takes_every_second_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "processes", lambda: 2)
    for rank, wanted in ((0, ([10, 30, 50], 0.6)), (1, ([20, 40], 0.4))):
        monkeypatch.setattr(parallel, "rank", lambda rank=rank: rank)
        [(rows, weight)] = parallel.split_batch(np.array([10, 20, 30, 40, 50]), torch.nn.Module())
        assert (rows.tolist(), weight) == wanted
    [(rows, weight)] = parallel.split_batch(np.array([10]), torch.nn.Module())
    assert (rows.tolist(), weight) == ([10], 0.0), "a process without a text counts for nothing"


def test_a_finished_part_counts_only_as_long_as_its_files_are_as_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "seed-0"
    folder.mkdir()
    (folder / "model").write_bytes(b"weights")
    resume.mark_finished(folder, Checkpoints(tmp_path / "steps"), about={"score": 0.5})
    note = resume.read_finished(folder)
    assert note["about"] == {"score": 0.5}
    (folder / "model").write_bytes(b"Weights")  # same name and size, one letter changed
    assert resume.read_finished(folder) is None
    assert not folder.exists()


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("epigram.nn.layers.own", True),
        ("epigram.nn.encoders.own", True),
        ("epigram.training.own", True),
        ("other.layers", False),
    ],
)
def test_a_change_of_any_loaded_module_of_ours_gives_another_fingerprint(
    name: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType(name)
    module.__file__ = str(tmp_path / "own.py")
    monkeypatch.setitem(sys.modules, name, module)
    found = []
    for code in ("x = 1\n", "x = 2\n"):
        (tmp_path / "own.py").write_text(code)
        found.append(resume.fingerprint("facts"))
    assert (found[0] != found[1]) is counts


@pytest.mark.parametrize(("folder", "counts"), [("nn/heads", True), ("training/optimizers", True), ("report", False)])
def test_a_change_of_a_part_that_is_imported_by_name_later_gives_another_fingerprint(
    folder: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(resume, "PACKAGE", tmp_path)
    found = []
    for code in ("x = 1\n", "x = 2\n"):
        (tmp_path / folder / "own.py").write_text(code)
        found.append(resume.fingerprint("facts"))
    assert (found[0] != found[1]) is counts
