"""The best weights are chosen by the score that `stop_on` names, separately for each depth of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from epigram.evaluation.metrics.primary import metric_of
from epigram.models.predict import Predicted
from epigram.nn.layers.types import Prediction, Tokens
from epigram.training.config import TrainingConfig
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective
from tests.support.scripted import CONFIG, DEV, FIRST, Dev, Scripted, texts

# Right texts and right tokens, of ten each. The token score of k right tokens is 2k / (k + 10).
BOTH = [(9, 1), (2, 9), (8, 7), (0, 0)]


class WithTokens(Scripted):
    """Also predicts token labels: label 1 on as many of dev's ten tokens as the script has, else the default label."""

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        found = super().forward(tokens, labels)
        right = 0 if labels is not None else BOTH[self.evaluations - 1][1]
        said = (tokens.ids - FIRST < right).long()
        return Prediction(found.logits, found.loss, tokens=5.0 * torch.nn.functional.one_hot(said, 2).float())


@pytest.mark.parametrize(
    ("stop_on", "scores", "best"),
    [
        ("sentence", [0.9, 0.2, 0.8, 0.0], 1),
        ("token", [2 / 11, 18 / 19, 14 / 17, 0.0], 2),
        ("mean", [(0.9 + 2 / 11) / 2, (0.2 + 18 / 19) / 2, (0.8 + 14 / 17) / 2, 0.0], 3),
    ],
)
def test_the_best_weights_are_those_of_the_score_to_stop_on(stop_on: Any, scores: list[float], best: int) -> None:
    dev, model = texts(DEV), WithTokens([Dev(right) for right, _ in BOTH])
    dev.token_labels = torch.tensor([1] * DEV + [-1])
    trainer = Trainer(
        model, label_objective(texts(4), dev, TrainingConfig(**CONFIG, epochs=4, stop_on=stop_on)), seed=0
    )
    record = trainer.run()
    assert [line["dev"] for line in record.history] == pytest.approx(scores)
    assert (record.epoch, model.mark.item()) == (best, best)
    assert record.accuracy == BOTH[best - 1][0] / DEV, "that of the texts, whatever the criterion"


@pytest.mark.parametrize(
    ("stop_on", "scores", "best"),
    [
        ("sentence", [0.8, 0.7], 1),
        ("sentence_f1", [0.0, 2 * 2 / (5 + 2)], 2),
        ("macro_f1", [(0 + 16 / 18) / 2, (4 / 7 + 10 / 13) / 2], 2),
    ],
)
def test_f1_of_the_texts_selects_a_model_that_finds_the_rare_class(
    stop_on: Any, scores: list[float], best: int
) -> None:
    """Two of ten dev texts have label 0, the others the plain class 1. First none, then five are predicted as 0."""
    dev, model = texts(DEV), Scripted([Dev(0), Dev(5)])
    dev.labels, dev.plain_class = torch.tensor([0, 0] + [1] * 8), 1
    dev.token_labels = torch.tensor([0] * DEV + [-1])
    config = TrainingConfig(**CONFIG, epochs=2, stop_on=stop_on)
    record = Trainer(model, label_objective(texts(4), dev, config), seed=0).run()
    assert [line["dev"] for line in record.history] == pytest.approx(scores)
    assert (record.epoch, model.mark.item()) == (best, best)


@pytest.mark.parametrize(
    ("setting", "best"),
    [("auto", 1), ("accuracy", 1), ("macro_f1", 2), ("f1:rare", 2), ("log_loss", 1)],
)
def test_the_metric_of_the_project_selects_the_epoch_and_stops(setting: str, best: int) -> None:
    """Accuracies 0.8, 0.7, 0.6 and 0.5: the F1 of the rare class is 0, 4/7, 1/2 and 4/9."""
    dev, model = texts(DEV), Scripted([Dev(0), Dev(5), Dev(6), Dev(7)])
    dev.labels = torch.tensor([0, 0] + [1] * 8)
    config = TrainingConfig(**{**CONFIG, "patience": 2}, epochs=4)
    metric = metric_of(setting, "single", ["rare", "plain"])
    objective = label_objective(texts(4), dev, config, metric=metric)
    record = Trainer(model, objective, seed=0).run()
    assert (record.epoch, model.mark.item(), len(record.history)) == (best, best, best + 2)
    assert all(line["dev"] < 0 for line in record.history) == (setting == "log_loss")
    assert objective.shown(-0.3456) == ("0.3456" if setting == "log_loss" else "-34.6")


def test_a_student_is_selected_by_the_score_to_stop_on() -> None:
    train, dev = texts(4), texts(DEV)
    train.labels, dev.labels = torch.full((4, 2), 0.5), torch.tensor([0, 0] + [1] * 8)
    objective = label_objective(train, dev, TrainingConfig(**CONFIG, stop_on="macro_f1"))
    always_one = Predicted(np.tile(np.float32([0.0, 1.0]), (DEV, 1)), None)
    assert objective.score(always_one) == pytest.approx(16 / 18 / 2)


class Shrinking(Scripted):
    """Model of three layers that drops one when the controller acts at the epochs `losses`."""

    losses: tuple[int, ...] = (2,)

    def __init__(self, script: list[Dev]) -> None:
        super().__init__(script)
        self.depth = 3
        self.asked: list[list[float]] = []

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        found = super().forward(tokens, labels)
        return Prediction(found.logits, found.loss, parts=torch.stack([found.logits, -found.logits]))

    def adapt(self, scores: list[float]) -> bool:
        self.asked.append(scores)
        if len(self.asked) not in self.losses:
            return False
        self.depth -= 1
        return True


@pytest.mark.parametrize(("setting", "alphas"), [("auto", [0.8, 0.2]), ("macro_f1", [4 / 9, 1 / 6])])
def test_the_metric_is_the_score_of_the_layers(setting: str, alphas: list[float]) -> None:
    """The first part predicts the label 1 for all ten texts, which eight have; the second one predicts 0."""
    dev, model = texts(DEV), Shrinking([Dev(0)])
    dev.labels = torch.tensor([0, 0] + [1] * 8)
    metric = metric_of(setting, "single", ["a", "b"])
    Trainer(model, label_objective(texts(4), dev, TrainingConfig(**CONFIG, epochs=1), metric=metric), seed=0).run()
    assert model.asked == [pytest.approx(alphas)]


def test_the_search_for_the_best_begins_anew_where_a_layer_went() -> None:
    """The second evaluation has score 0.9, then a layer is dropped and dev is evaluated again: 0.6 at the new depth."""
    script = [Dev(8), Dev(9), Dev(6), Dev(5), Dev(7), Dev(4), Dev(4), Dev(4), Dev(4)]
    model = Shrinking(script)
    trainer = Trainer(
        model, label_objective(texts(4), texts(DEV), TrainingConfig(**{**CONFIG, "patience": 2}, epochs=9)), seed=0
    )
    record = trainer.run()
    assert [line["dev"] for line in record.history] == [0.8, 0.6, 0.5, 0.7, 0.4, 0.4]
    assert (record.epoch, record.accuracy, record.depth, model.mark.item()) == (4, 0.7, 2, 4)
    assert model.asked[1] == [0.9, pytest.approx(0.1)]


@pytest.mark.parametrize("patience", [{"patience": 4}, {"patience": 1, "patience_steps": 4}])
def test_a_layer_that_goes_late_gives_the_new_depth_all_of_the_patience(patience: dict[str, int]) -> None:
    """A layer is dropped after two stale evaluations: the patience restarts, and a worse score is the best one."""
    script = [Dev(9), Dev(8), Dev(8), Dev(8), Dev(5), Dev(4), Dev(4), Dev(4)]
    model = Shrinking(script)
    model.losses = (4,)
    trainer = Trainer(
        model, label_objective(texts(4), texts(DEV), TrainingConfig(**{**CONFIG, **patience}, epochs=7)), seed=0
    )
    record = trainer.run()
    assert [line["dev"] for line in record.history] == [0.9, 0.8, 0.8, 0.5, 0.4, 0.4, 0.4]
    assert (record.epoch, record.accuracy, record.stale) == (4, 0.5, 3)


def test_the_controller_acts_at_the_end_of_an_epoch_only() -> None:
    model = Shrinking([Dev(n) for n in (1, 2, 3, 4, 5)])
    trainer = Trainer(
        model, label_objective(texts(8), texts(DEV), TrainingConfig(**CONFIG, epochs=2, evaluations=2)), seed=0
    )
    record = trainer.run()
    assert [line["step"] for line in record.history] == [1, 2, 3, 4]
    assert [scores[0] for scores in model.asked] == [0.2, 0.4]
    assert [line["dev"] for line in record.history] == [0.1, 0.2, 0.3, 0.5], "judged again once a layer went"
