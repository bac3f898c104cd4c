"""Early stopping, best weights and schedules, evaluation by evaluation, on scripted dev scores."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from epigram.training.config import TrainingConfig
from epigram.training.loop.progress import estimate_pace
from epigram.training.loop.rollback import DivergedError
from tests.support.runs import Always, KilledError
from tests.support.scripted import Dev, Run, prepared, trained

WORSE = Dev(3)


def steps(run: Run) -> list[float]:
    """Return the steps after which dev was evaluated."""
    return [line["step"] for line in run.record.history]


# Early stopping


@pytest.mark.parametrize(("patience", "evaluated"), [(1, 3), (2, 6), (3, 7), (5, 8)])
def test_training_stops_after_exactly_as_many_stale_evaluations_as_patience(patience: int, evaluated: int) -> None:
    script = [Dev(5), Dev(7), Dev(6), Dev(8), Dev(6), Dev(8), Dev(8), Dev(8)]  # improves at 1, 2 and 4
    run = trained(script, patience=patience)
    assert (len(run.record.history), run.model.evaluations, run.model.steps) == (evaluated, evaluated, evaluated)


def test_a_gain_starts_the_count_of_stale_evaluations_anew() -> None:
    script = [Dev(5), WORSE, Dev(6), WORSE, Dev(7), WORSE, WORSE, Dev(10)]
    run = trained(script, patience=2)
    assert (len(run.record.history), run.record.epoch, run.record.stale) == (7, 5, 2)


def test_patience_counts_evaluations_and_stops_within_an_epoch() -> None:
    script = [Dev(5), Dev(7), WORSE, WORSE, WORSE, Dev(10), Dev(10), Dev(10)]
    run = trained(script, batches=4, epochs=2, evaluations=4, patience=3)
    assert steps(run) == [1, 2, 3, 4, 5]
    assert (run.model.steps, run.model.mark.item()) == (5, 2)


def test_patience_in_steps_ends_training_at_the_evaluation_that_many_steps_after_the_best() -> None:
    """Ten batches per epoch, evaluations every four steps and after each epoch, patience of six steps.

    step   4  8  10  12  16  20  24  28  30
    score  5  7   6   6   8   8   8   8   8
    best   4  8   8   8  16  16  16  (of equal scores the first)
    since  0  0   2   4   0   4   8 ≥ 6: training ends at step 24
    """
    script = [Dev(right) for right in (5, 7, 6, 6, 8, 8, 8, 8, 8)]
    run = trained(script, batches=10, epochs=3, evaluation_steps=4, patience_steps=6, patience=1)
    assert steps(run) == [4, 8, 10, 12, 16, 20, 24]
    assert (run.model.steps, run.model.evaluations) == (24, 7)
    assert (run.record.epoch, run.record.step, run.record.stale_steps, run.model.mark.item()) == (2, 16, 8, 16)


@pytest.mark.parametrize(("patience_steps", "last"), [(1, 6), (2, 6), (3, 8), (4, 8), (5, 10), (99, 12)])
def test_patience_in_steps_counts_batches_not_evaluations(patience_steps: int, last: int) -> None:
    """Evaluations every two steps; the best is the second one, at step 4."""
    script = [Dev(5), Dev(9), *[Dev(8)] * 4]
    run = trained(script, batches=12, epochs=1, evaluation_steps=2, patience_steps=patience_steps, patience=1)
    assert steps(run) == list(range(2, last + 1, 2))


def test_patience_in_steps_with_one_evaluation_per_epoch() -> None:
    run = trained([Dev(5), Dev(4), Dev(4), Dev(9)], batches=3, patience_steps=4)
    assert steps(run) == [3, 6, 9], "six steps after the best, not three"


def test_the_interval_of_evaluations_goes_on_over_the_epochs() -> None:
    run = trained([Dev(5)] * 6, batches=3, epochs=4, evaluation_steps=5)
    assert steps(run) == [3, 5, 6, 9, 10, 12], "after steps 5 and 10, and after each epoch"


@pytest.mark.parametrize("killed", [2, 5, 9, 13, 17, 18, 21, 24])
def test_patience_in_steps_goes_on_after_a_resume(killed: int, tmp_path: Path) -> None:
    """Training ends at step 24 of 30 (see above), also if it was killed in any step before."""
    script = [Dev(right) for right in (5, 7, 6, 6, 8, 8, 8, 8, 8)]
    settings: dict[str, Any] = {"batches": 10, "epochs": 3, "evaluation_steps": 4, "patience_steps": 6, "patience": 1}
    whole, first, second = trained(script, **settings), prepared(script, **settings), prepared(script, **settings)

    def kill(*_: object) -> None:
        if first.model.steps == killed:
            raise KilledError

    first.trainer.optimizer.register_step_post_hook(kill)
    first.trainer.checkpoints = second.trainer.checkpoints = Always(tmp_path)
    with pytest.raises(KilledError):
        first.trainer.run()
    second.model.evaluations = first.model.evaluations
    second.trainer.run()
    assert second.trainer.first_step == killed - 1
    assert asdict(second.record) == asdict(whole.record)
    assert (second.model.mark.item(), second.model.rise.item()) == (whole.model.mark.item(), whole.model.rise.item())


def test_a_rollback_counts_as_no_gain_for_the_patience_in_steps() -> None:
    script = [Dev(9), WORSE, WORSE, WORSE]
    run = trained(script, batches=8, epochs=1, faults=(3,), rollbacks=1, evaluation_steps=2, patience_steps=3)
    assert steps(run) == [2, 4, 6], "step 6 is the first evaluation at least three steps after the best, step 2"


def test_training_ends_after_its_epochs_where_dev_gains_each_time() -> None:
    run = trained([Dev(n) for n in range(1, 7)], epochs=4, patience=1)
    assert (len(run.record.history), run.record.epoch) == (4, 4)


# The best weights


def test_the_model_ends_with_the_weights_of_the_best_evaluation() -> None:
    run = trained([Dev(5), Dev(9), Dev(7), Dev(8)], batches=2)
    assert run.model.mark.item() == 4  # two epochs of two steps
    assert run.model.rise.item() == pytest.approx(4 * 0.5)
    assert (run.record.epoch, run.record.accuracy) == (2, 0.9)
    assert run.model.steps == 8 and not run.model.training


def test_the_first_evaluation_may_be_the_best() -> None:
    run = trained([Dev(0), Dev(0, 0.5), Dev(0)])
    assert (run.record.epoch, run.record.accuracy, run.model.mark.item()) == (1, 0.0, 1)


@pytest.mark.parametrize(
    ("script", "best"),
    [
        ([Dev(7, 1.0), Dev(7, 2.0), Dev(7, 1.5)], 2),  # the margin lowers the loss
        ([Dev(7, 2.0), Dev(7, 1.0), Dev(7, 1.5)], 1),
        ([Dev(7, 1.0), Dev(7, 1.0), Dev(7, 1.0)], 1),  # no improvement: the first one is kept
        ([Dev(7, 2.0), Dev(8, 0.1), Dev(7, 9.0)], 2),  # the score decides before the loss
    ],
)
def test_of_equal_scores_the_lower_dev_loss_wins(script: list[Dev], best: int) -> None:
    run = trained(script)
    assert (run.record.epoch, run.model.mark.item()) == (best, best)
    assert run.record.stale == 3 - best


def test_the_history_has_score_and_loss_of_every_evaluation() -> None:
    script = [Dev(5), Dev(7, 2.0), Dev(6, 0.5)]
    history = trained(script, batches=2).record.history
    assert [(line["epoch"], line["step"], line["dev"]) for line in history] == [(1, 2, 0.5), (2, 4, 0.7), (3, 6, 0.6)]
    assert [line["dev_loss"] for line in history] == pytest.approx([dev.loss for dev in script], abs=1e-6)


@pytest.mark.parametrize(
    ("evaluations", "expected"),
    [(1, [7]), (2, [3, 7]), (3, [2, 4, 7]), (4, [1, 2, 3, 4, 5, 6, 7]), (9, [1, 2, 3, 4, 5, 6, 7])],
)
def test_evaluations_lie_evenly_in_an_epoch_and_the_last_at_its_end(evaluations: int, expected: list[int]) -> None:
    """Seven batches: evaluate every 7 // evaluations steps, and never closer than that to the evaluation at the end."""
    run = trained([Dev(5)] * 14, batches=7, epochs=2, evaluations=evaluations)
    assert steps(run) == expected + [7 + step for step in expected]


# Learning rates


def test_constant_rate() -> None:
    assert trained([Dev(1)] * 5).rates == [0.5] * 5


def test_linear_schedule_warms_up_and_falls_to_the_last_step() -> None:
    run = trained([Dev(1)] * 5, batches=2, schedule="linear", warmup=0.2, learning_rate=0.8)
    # ten steps, two of them warm-up: 1/2 and 2/2, then (10 - t) / 8 for t = 2 to 9
    assert run.rates == pytest.approx([0.4, 0.8, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1], abs=1e-4)


def test_inverse_square_root_schedule() -> None:
    run = trained([Dev(1)] * 6, schedule="inverse_sqrt", warmup=0.5, warmup_steps=2, learning_rate=0.8)
    # warm-up of min(2, 3) = 2 steps, then √(2 / t) for t = 2 to 5
    assert run.rates == pytest.approx([0.4, 0.8, 0.8, 0.65320, 0.56569, 0.50596], abs=1e-4)


def test_the_schedule_is_that_of_all_epochs_even_where_training_stops_early() -> None:
    run = trained([Dev(5), WORSE, WORSE, WORSE], epochs=4, patience=1, schedule="linear", learning_rate=0.4)
    assert run.rates == pytest.approx([0.4, 0.4], abs=1e-4)  # step 1 is warm-up; (4 - 1) / (4 - 1) is 1
    longer = trained([Dev(5), Dev(6), WORSE, WORSE], epochs=4, patience=1, schedule="linear", learning_rate=0.3)
    assert longer.rates == pytest.approx([0.3, 0.3, 0.2], abs=1e-4)


def test_plateau_lowers_the_rate_by_a_tenth_at_the_fourth_stale_evaluation_and_each_further_one() -> None:
    script = [Dev(5), WORSE, WORSE, WORSE, WORSE, Dev(6), WORSE, WORSE, WORSE, WORSE, WORSE, WORSE, WORSE]
    run = trained(script, schedule="plateau", learning_rate=1.0)
    # four stale evaluations after step 5 and, after the improvement at step 6, four to six after the steps 10 to 12
    assert run.rates == pytest.approx([1.0] * 5 + [0.9] * 5 + [0.81, 0.729, 0.6561], abs=1e-4)


def test_a_constant_schedule_ignores_a_plateau() -> None:
    assert trained([Dev(5), *[WORSE] * 6]).rates == [0.5] * 7


# Rollback


def test_rollback_takes_the_best_weights_and_half_the_rate() -> None:
    script = [Dev(5), Dev(9), WORSE, WORSE, Dev(4), Dev(4)]
    run = prepared(script, faults=(4,), rollbacks=1, epochs=6)
    run.trainer.run()
    assert run.values[:4] == pytest.approx([0.0, 0.5, 1.0, 1.5])
    # The best weights are those of step 2 (1.0). Adam's state is reset, so each step is the rate again: 0.25.
    assert run.values[5:] == pytest.approx([1.25, 1.5])
    assert [note for note in run.notes if "step 4" in note], "it is reported"
    assert (run.record.epoch, run.model.mark.item()) == (2, 2)


def test_rollback_may_happen_as_often_as_set_and_no_more() -> None:
    script = [Dev(5)] * 6
    assert len(trained(script, faults=(2, 4), rollbacks=2).record.history) == 6
    with pytest.raises(DivergedError, match=r"step 4\b"):
        trained(script, faults=(2, 4), rollbacks=1)


def test_rollback_before_any_evaluation_takes_the_first_weights() -> None:
    run = trained([Dev(5), Dev(6), Dev(7)], batches=2, faults=(2,), rollbacks=1)
    assert run.values[3:] == pytest.approx([0.25, 0.5, 0.75, 1.0])  # from 0, the initial value


@pytest.mark.parametrize("margin", [float("nan"), float("inf")])
def test_predictions_that_are_no_numbers_are_never_the_best(margin: float) -> None:
    broken = Dev(9, margin)
    with pytest.raises(DivergedError, match=r"step 1\b"):
        trained([broken, Dev(5), Dev(5)])
    run = trained([Dev(5), Dev(6), broken, Dev(4), Dev(4)], rollbacks=1)
    assert [line["dev"] for line in run.record.history] == pytest.approx([0.5, 0.6, 0.4, 0.4])
    assert (run.record.epoch, run.model.mark.item()) == (2, 2)
    assert run.values[3:] == pytest.approx([1.5, 1.25, 1.5])  # back to 1.0 of step 2, then half the rate


# Progress


@pytest.mark.parametrize(("fault", "noticed"), [(3, 20), (20, 20), (21, 40), (45, 50)])
def test_the_loss_is_looked_at_every_20_steps_and_before_each_evaluation(fault: int, noticed: int) -> None:
    run = prepared([Dev(5)], batches=50, faults=(fault,))
    with pytest.raises(DivergedError, match=rf"step {fault}\b"):
        run.trainer.run()
    assert run.model.steps == noticed


def test_pace_is_in_steps_a_second_and_seconds_for_those_left() -> None:
    assert estimate_pace(10.0, 5, 20) == (0.5, 40.0)
    assert estimate_pace(10.0, 0, 20)[1] == 200.0, "before the first step has ended it counts as one"


def test_progress_shows_the_best_dev_score_so_far() -> None:
    run = prepared([Dev(5), Dev(8), WORSE], batches=2)
    shown: list[tuple[int, int, str | None]] = []
    run.trainer.report = lambda progress: shown.append((progress.epoch, progress.step, progress.dev))
    run.trainer.run()
    assert shown == [(1, 2, "50.0"), (2, 4, "80.0"), (3, 6, "80.0")]


# Minimum number of steps


@pytest.mark.parametrize(
    ("floor", "epochs", "patience"), [(0, 3, 2), (12, 3, 2), (13, 4, 3), (16, 4, 3), (17, 5, 4), (36, 9, 6)]
)
def test_a_floor_of_steps_rounds_epochs_and_patience_up(floor: int, epochs: int, patience: int) -> None:
    """Four batches per epoch, three epochs: 12 steps. The patience is 2 of 3 epochs, so 2/3 of the epochs."""
    config = TrainingConfig(epochs=3, patience=2, min_steps=floor).lengthened(4)
    assert (config.epochs, config.patience) == (epochs, patience)


def test_a_floor_of_steps_adds_epochs_to_the_schedule() -> None:
    """Two batches per epoch, one epoch, five steps: three epochs; after its first step the rate falls to 0 in five."""
    run = trained([Dev(5), Dev(6), Dev(7)], batches=2, epochs=1, min_steps=5, schedule="linear", learning_rate=0.6)
    assert steps(run) == [2, 4, 6]
    assert run.rates == pytest.approx([0.6, 0.6, 0.48, 0.36, 0.24, 0.12])


def test_early_stopping_ends_a_training_with_a_floor_of_steps() -> None:
    """Two epochs become eight, so a patience of one evaluation becomes four: after the best, four stale ones."""
    script = [Dev(5), Dev(7), WORSE, WORSE, WORSE, WORSE, Dev(9), Dev(9)]
    run = trained(script, epochs=2, min_steps=8, patience=1)
    assert (run.model.steps, run.record.epoch, run.model.mark.item()) == (6, 2, 2)


def test_a_floor_of_steps_stretches_the_plateau() -> None:
    """One epoch becomes two: the rate decays at the eighth, tenth and twelfth stale evaluation."""
    script = [Dev(5), *[WORSE] * 15]
    run = trained(script, batches=8, epochs=1, min_steps=16, evaluations=8, schedule="plateau", learning_rate=0.5)
    assert run.rates[:13] == pytest.approx([0.5] * 9 + [0.45] * 2 + [0.405] * 2)
