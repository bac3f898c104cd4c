"""A training by a plan: where it ends, its learning rates, the weights that it keeps, the layers that it drops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from epigram.training.config import TrainingConfig
from epigram.training.loop.plan import Event, Plan
from epigram.training.loop.rollback import DivergedError
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective
from tests.support.layered import RIGHT, SILENT, model_of, texts_of
from tests.support.runs import Always, KilledError
from tests.support.scripted import Dev, Run, prepared, trained

SETTINGS: dict[str, Any] = {"batches": 5, "epochs": 4}


def followed(plan: Plan, folder: Path | None = None, **settings: Any) -> Run:
    """Return a training by `plan` that is ready to run; an evaluation would fail, as the script is empty."""
    run = prepared([], **SETTINGS | settings)
    old = run.trainer
    objective = label_objective(old.objective.train, None, old.objective.config)  # type: ignore[attr-defined]
    checkpoints = None if folder is None else Always(folder)
    run.trainer = Trainer(run.model, objective, seed=0, plan=plan, checkpoints=checkpoints)
    run.trainer.report = lambda progress: run.notes.append(progress.note)
    run.trainer.optimizer.register_step_post_hook(lambda *_: run.values.append(run.model.rise.item()))
    return run


@pytest.mark.parametrize(("steps", "epoch"), [(1, 1), (5, 1), (6, 2), (13, 3), (20, 4)])
def test_training_ends_with_the_last_step_of_the_plan(steps: int, epoch: int) -> None:
    run = followed(Plan(steps, 20))
    run.trainer.run()
    assert (run.model.steps, run.model.evaluations) == (steps, 0)
    assert run.model.mark.item() == steps, "the last weights are kept"
    assert (run.record.epoch, run.record.step, run.record.history) == (epoch, steps, [])


def test_a_plan_of_fewer_planned_steps_is_scaled() -> None:
    run = followed(Plan(3, 10))
    run.trainer.run()
    assert run.model.steps == 6


def test_the_schedule_is_that_of_the_whole_training() -> None:
    """The rate falls as in a training of twenty steps, although only ten are taken."""
    run = followed(Plan(10, 20), schedule="linear")
    run.trainer.run()
    assert run.rates == trained([Dev(5)] * 4, batches=5, schedule="linear").rates[:10]
    assert run.rates[-1] == pytest.approx(0.29, abs=0.01)


def test_the_rate_decays_after_the_steps_of_the_plan() -> None:
    run = followed(Plan(8, 20, (Event(2, "decay"), Event(5, "decay"))), schedule="plateau")
    run.trainer.run()
    assert run.rates == pytest.approx([0.5] * 2 + [0.45] * 3 + [0.405] * 3, abs=1e-4)


def test_a_training_with_dev_records_its_plan() -> None:
    """The best evaluation is the eighth; the rate decays at the fourth stale one and each further, also after it."""
    script = [Dev(5), Dev(4), Dev(4), Dev(4), Dev(4), Dev(4), Dev(4), Dev(6), *[Dev(4)] * 4]
    run = trained(script, batches=2, schedule="plateau")
    assert run.trainer.plan_to_repeat() == Plan(16, 24, tuple(Event(step, "decay") for step in (10, 12, 14, 24)))
    again = followed(run.trainer.plan_to_repeat(), batches=2, epochs=12, schedule="plateau")
    again.trainer.run()
    assert again.rates == run.rates[:16]


def test_layers_are_dropped_after_the_steps_of_the_plan() -> None:
    model = model_of(RIGHT, SILENT, RIGHT)
    config = TrainingConfig(epochs=3, batch_size=4, precision="fp32")
    trainer = Trainer(model, label_objective(texts_of(), None, config), seed=0, plan=Plan(4, 6, (Event(2, "drop", 1),)))
    depths: list[int] = []
    trainer.optimizer.register_step_post_hook(lambda *_: depths.append(model.depth))
    trainer.run()
    assert depths == [3, 3, 2, 2]
    assert model.dropped == [1]


@pytest.mark.parametrize("killed", [1, 2, 3, 7, 9])
def test_a_plan_goes_on_after_a_resume(killed: int, tmp_path: Path) -> None:
    plan = Plan(9, 20, (Event(2, "decay"), Event(7, "decay")))
    whole, first, second = followed(plan), followed(plan, tmp_path), followed(plan, tmp_path)

    def kill(*_: object) -> None:
        if first.model.steps == killed:
            raise KilledError

    first.trainer.optimizer.register_step_pre_hook(kill)
    whole.trainer.run()
    with pytest.raises(KilledError):
        first.trainer.run()
    second.trainer.run()
    assert torch.equal(second.model.rise, whole.model.rise)
    assert (second.model.mark.item(), second.record.step, second.record.epoch) == (9, 9, 2)


def test_a_loss_that_is_not_finite_is_an_error_at_the_last_step_too() -> None:
    with pytest.raises(DivergedError, match="at step 3"):
        followed(Plan(3, 20), faults=(3,)).trainer.run()


def test_a_rollback_returns_to_the_last_whole_epoch() -> None:
    run = followed(Plan(12, 20), faults=(8,), rollbacks=1)
    run.trainer.run()
    assert any("rolled back" in note for note in run.notes)
    assert run.rates[-1] == pytest.approx(0.25, abs=1e-3)
    # the fault of step 8 is found after step 10, the last of the epoch; steps 6 to 10 are undone
    assert run.model.mark.item() == 5 + 2
