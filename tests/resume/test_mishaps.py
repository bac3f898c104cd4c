"""Loss that is NaN, and out of memory."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
import torch

from epigram.core.errors import ParameterError, TryAgainError
from epigram.training.loop.progress import Progress
from epigram.training.loop.trainer import Trainer
from epigram.training.resume import mark_finished, read_finished, resume_folder
from tests.support.runs import BATCHES, KilledError, ended, trainer

PLACE = Path(".epigram/state/train/textcnn")  # of the resume state
BAD = 5  # the step, counted from 1, with a NaN loss


def broken(name: str, at: int, **settings: Any) -> tuple[Trainer, list[str]]:
    """Return a trainer whose loss is NaN in forward pass `at`, and the list of its messages."""
    made, said = trainer(name, **settings), []
    made.report = lambda progress: said.append(progress.note)
    calls = 0

    def spoil(module: Any, arguments: Any, output: Any) -> Any:
        nonlocal calls
        calls += output.loss is not None
        return replace(output, loss=output.loss * torch.nan) if output.loss is not None and calls == at else output

    made.model.register_forward_hook(spoil)
    return made, said


def test_a_loss_that_is_no_number_names_step_and_rows() -> None:
    made, _ = broken("textcnn", BAD)
    objective, order = trainer("textcnn").objective, trainer("textcnn").order
    first, second = (list(objective.epoch(order)) for _ in range(2))
    rows = second[BAD - 1 - len(first)].rows
    with pytest.raises(ParameterError) as caught:
        made.run()
    line, details = str(caught.value).split("\n")
    assert line.startswith("loss is NaN or infinite at step 5 (epoch 2), on training rows ")
    assert "lower train.learning_rate" in line
    assert details == f"row numbers, from 0: {', '.join(map(str, rows))}"


def test_the_last_good_state_stays(tmp_path: Any) -> None:
    made, _ = broken("textcnn", BAD, folder=tmp_path)
    with pytest.raises(ParameterError):
        made.run()
    state = made.checkpoints.latest()  # type: ignore[union-attr]
    assert state is not None
    assert state.facts["position"]["step"] == BAD - 1
    assert all(value.isfinite().all() for value in state.part("model").values() if value.is_floating_point())


def test_it_may_go_back_and_slow_down() -> None:
    whole = trainer("textcnn")
    whole.run()
    made, said = broken("textcnn", BAD, rollbacks=1)
    record = made.run()
    assert [note for note in said if note] == [
        "loss is NaN or infinite at step 5; rolled back to the best weights, learning rate halved"
    ]
    assert len(record.history) == BATCHES
    assert all(value.isfinite().all() for value in made.model.state_dict().values())
    assert [g["lr"] for g in made.optimizer.param_groups] == [g["lr"] / 2 for g in whole.optimizer.param_groups]


def test_once_it_went_back_the_loss_is_that_of_the_steps_since() -> None:
    made, _ = broken("textcnn", BAD, rollbacks=1)
    losses: list[float] = []
    made.model.register_forward_hook(
        lambda _, __, out: None if out.loss is None else losses.append(float(out.loss.detach()))
    )
    told = [line["loss"] for line in made.run().history]
    assert [step for step, loss in enumerate(losses, 1) if not isfinite(loss)] == [5, 6]
    assert told[2] == pytest.approx(mean(losses[:4])), "at step 6, where it goes back: the last that was known"
    assert told[3] == pytest.approx(mean(losses[6:]))


def mean(losses: list[float]) -> float:
    """Return the moving average that training shows: it starts at the first loss; each later loss has weight 1/20."""
    shown, *more = losses
    for loss in more:
        shown += 0.05 * (loss - shown)
    return shown


def test_where_no_loss_has_been_a_number_yet_none_is_told() -> None:
    made, said = broken("textcnn", 1, rollbacks=1)
    record = made.run()
    assert any("NaN or infinite at step 1;" in note for note in said)
    assert [line["step"] for line in record.history] == [4, 6, 8]
    assert all(line["loss"] > 0.1 for line in record.history)


def test_a_training_that_went_back_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole = ended(broken("textcnn", BAD, rollbacks=1)[0])
    with pytest.raises(KilledError):
        broken("textcnn", BAD, rollbacks=1, folder=tmp_path, train=BAD + 1)[0].run()
    assert ended(trainer("textcnn", tmp_path, rollbacks=1)) == {**whole, "first": BAD + 1}


@pytest.mark.filterwarnings("ignore:.*no-op:UserWarning")
def test_a_training_resumes_on_another_device(tmp_path: Path) -> None:
    with pytest.raises(KilledError):
        trainer("textcnn", tmp_path, train=2).run()
    made = trainer("textcnn", tmp_path, device="meta")  # replaces a GPU: a device of its own, without values
    for callback in made.callbacks:
        callback.start(made)
    assert made.first_step == 2
    assert {weight.device.type for weight in made.model.parameters()} == {"meta"}
    made.rollback.roll_back(made)
    assert {weight.device.type for weight in made.model.parameters()} == {"meta"}


def test_it_goes_back_no_more_often_than_allowed() -> None:
    made, _ = broken("textcnn", 1, rollbacks=1)
    made.model.register_forward_hook(
        lambda _, __, out: replace(out, loss=out.loss * torch.nan) if out.loss is not None else out
    )
    with pytest.raises(ParameterError, match="loss is NaN or infinite"):
        made.run()


def shrinking(folder: Path | None, *rooms: int, **dies: int) -> Trainer:
    """Return a trainer whose memory holds `rooms[i]` texts at step i, and the last number at later steps."""
    made = trainer("textcnn", folder, **dies)

    def fill(module: Any, arguments: Any) -> None:
        if module.training and len(arguments[0].ids) > rooms[min(made.position.step, len(rooms) - 1)]:
            raise torch.OutOfMemoryError("out of memory")

    made.model.register_forward_pre_hook(fill)
    return made


def short(room: int) -> tuple[Trainer, list[str]]:
    """Return a trainer whose memory holds `room` texts, and the list of its messages."""
    made, said = shrinking(None, room), []
    made.report = lambda progress: said.append(progress.note)
    return made, said


def quiet(made: Trainer) -> Trainer:
    """Turn off dropout, whose noise depends on how texts are batched."""
    for module in made.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return made


def test_where_memory_runs_out_batches_are_halved_once_and_give_the_same() -> None:
    whole = quiet(trainer("textcnn"))
    made, said = short(32 // BATCHES // 2)
    expected, record = whole.run(), quiet(made).run()
    assert [note for note in said if note] == ["out of memory; each batch is split into two halves from now on"]
    for line, other in zip(expected.history, record.history, strict=True):
        assert other == pytest.approx(line, rel=1e-4)


def test_where_halves_do_not_fit_either_it_stops() -> None:
    made, _ = short(32 // BATCHES // 2 - 1)
    with pytest.raises(
        TryAgainError, match=r"out of memory at step 1, on 8 texts of up to \d+ tokens in halved batches"
    ):
        made.run()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_where_halves_do_not_fit_later_the_next_run_goes_on_from_whole_batches_to_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TryAgainError, match="out of memory at step 6"), resume_folder(PLACE) as state:
        shrinking(state / "steps", 8, 8, 4, 4, 4, 3).run()
    assert names(state / "steps") == ["step-00000002"]
    assert ended(trainer("textcnn", state / "steps")) == {**ended(trainer("textcnn")), "first": 2}


def fail_between_groups(made: Trainer, at: int) -> None:
    """Let the optimizer run out of memory in step `at`, counted from 1, when it has updated all groups but the last."""
    prepare = made.optimizer._init_group  # type: ignore[attr-defined]

    def fail(group: dict[str, Any], *given: Any) -> Any:
        if made.position.step + 1 == at and group is made.optimizer.param_groups[-1]:
            made.optimizer._init_group = prepare  # type: ignore[attr-defined]
            raise torch.OutOfMemoryError("out of memory")
        return prepare(group, *given)

    made.optimizer._init_group = fail  # type: ignore[attr-defined]


@pytest.mark.parametrize("step", [1, 4])
def test_where_memory_runs_out_in_an_update_the_step_is_not_repeated(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adam has updated one of its two groups; the next run continues before this step, to the same bits."""
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(TryAgainError, match="out of memory in the update of the weights; free memory and rerun"),
        resume_folder(PLACE) as state,
    ):
        made = trainer("textcnn", state / "steps")
        assert len(made.optimizer.param_groups) == 2
        fail_between_groups(made, step)
        made.run()
    assert made.position.step == step - 1
    assert ended(trainer("textcnn", state / "steps")) == {**ended(trainer("textcnn")), "first": step - 1}


@pytest.mark.parametrize(("room", "done"), [(8, True), (4, False)])
def test_where_memory_runs_out_behind_it_a_model_of_halves_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, done: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MemoryError), resume_folder(PLACE) as state:
        made = shrinking(state / "steps", 8, room)
        made.run()
        (state / "seed-0").mkdir()
        mark_finished(state / "seed-0", made.checkpoints)
        raise MemoryError
    assert (read_finished(state / "seed-0") is not None) is done


def test_after_a_kill_batches_are_still_halved(tmp_path: Path) -> None:
    with pytest.raises(KilledError):
        shrinking(tmp_path, 8, 8, 4, train=9).run()
    assert names(tmp_path) == ["step-00000002", "step-00000004-halves", "step-00000005-halves"]
    again = shrinking(tmp_path, 4)
    again.run()
    assert again.first_step == 5


def test_progress_shows_a_note_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    from epigram.training.loop.progress import Printer

    Printer("dmsp seed 0")(Progress(1, 2, 3, 4, 0.5, "50.0", 10.0, 1.0, note="resuming from step 3 of 4"))
    assert capsys.readouterr().out == "dmsp seed 0: resuming from step 3 of 4\n"
