"""Tests of a training of the rows that occur in train, against a plain training of the whole table."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from epigram.core.ragged import Ragged
from epigram.models.batches import TextBatches
from epigram.models.classifier import Classifier
from epigram.nn.encoders.embedding import EmbeddingConfig
from epigram.nn.encoders.pretrained import PretrainedConfig
from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.heads.linear import LinearConfig
from epigram.nn.heads.prompt import PromptConfig
from epigram.nn.layers.types import DataSpec
from epigram.nn.pretrained.bert import BertConfig
from epigram.training import used_rows
from epigram.training.config import TrainingConfig
from epigram.training.objectives.base import Batch
from epigram.training.objectives.classification import Classification
from epigram.training.objectives.label_objective import label_objective
from epigram.training.plan import Plan
from epigram.training.trainer import Trainer
from epigram.training.used_rows import UsedRows, use_rows
from tests.support.runs import Always, KilledError

VOCABULARY, SEED, MASK, PREFIX = 60, 3, 4, (2, 5, 4, 6, 4)
WORDS, NEW = (10, 20), (30, 45)  # ids in train; ids that only dev has
UNKNOWN = 9  # an id that no text has
SETTINGS: dict[str, Any] = {
    "epochs": 3,
    "batch_size": 8,
    "learning_rate": 0.02,
    "weight_decay": 2.0,  # a row that is not trained loses a third in these twelve steps
    "epsilon": 1e-4,  # exceeds rounding errors, which are the whole gradient of some weights (a key's bias)
    "warmup": 0.25,
    "clip": 0.05,  # lower than most norms
    "patience": 9,
    "precision": "fp32",
}
SIZES: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
SIZES |= {"vocab_size": VOCABULARY, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
CONTEXT = DataSpec(vocabulary=VOCABULARY, classes=2, max_length=16, labels=("a", "b"), mask_id=MASK, prefix_ids=PREFIX)
BACKBONE = BertConfig(**SIZES).to_dict()
PARTS: dict[str, tuple[Any, Any]] = {
    "embedding": (EmbeddingConfig(width=8), LinearConfig(dropout=0.0)),
    "dropout": (EmbeddingConfig(width=8, dropout=0.3), LinearConfig(dropout=0.3)),
    "transformer": (TransformerConfig(width=16, heads=2, hidden=16, depth=1, dropout=0.0), LinearConfig(dropout=0.0)),
    "bert with padding": (PretrainedConfig(backbone=BACKBONE), LinearConfig(dropout=0.0)),
    "bert with a soft prompt": (PretrainedConfig(backbone=BACKBONE), PromptConfig(soft=True, dropout=0.0)),
}


def texts(count: int, seed: int, *ranges: tuple[int, int]) -> TextBatches:
    """Return texts with words of the given ranges of ids."""
    random = np.random.default_rng(seed)
    words = np.concatenate([np.arange(*each) for each in ranges])
    lengths = random.integers(1, 8, count)
    ids = random.choice(words, lengths.sum())
    labels = (Ragged.from_lengths(ids % 2, lengths).sums() * 2 > lengths).astype(np.int64)
    return TextBatches(
        Ragged.from_lengths(ids, lengths),
        prefix=list(PREFIX),
        suffix=[3],
        max_length=16,
        pad_id=0,
        unk_id=1,
        labels=labels,
    )


TRAIN, DEV = texts(32, 0, WORDS), texts(20, 1, WORDS, NEW)
USED = [0, 2, 3, 4, 5, 6, *range(*WORDS)]
ABSENT = sorted(set(range(VOCABULARY)) - set(USED))


def model_of(name: str = "embedding", **changes: Any) -> Classifier:
    encoder_config, head_config = PARTS[name]
    torch.manual_seed(0)
    encoder = encoder_config.build(CONTEXT)
    if encoder_config.kind == "pretrained":
        for weight in encoder.parameters():  # a saved backbone is built without its weights
            nn.init.normal_(weight, std=0.2)
    return Classifier(encoder, head_config.build(CONTEXT, encoder))


def table_of(model: Any) -> Tensor:
    weight: Tensor = model.encoder.token_table.weight
    return weight.detach()


def wrong_labels(given: TextBatches) -> TextBatches:
    """Return the texts with the other label of each: the more a model learns from train, the lower it scores."""
    some = copy(given)
    assert given.labels is not None
    some.labels = 1 - given.labels
    return some


def rate(step: int, steps: int = 12, warm: int = 3) -> float:
    """Return the learning rate of a step, from 0: a linear rise, then a linear fall."""
    factor = (step + 1) / warm if step < warm else (steps - step) / (steps - warm)
    return float(SETTINGS["learning_rate"] * factor)


def product(steps: int) -> float:
    """Return Π(1 − η·λ) over the first `steps`."""
    return float(np.prod([1 - rate(step) * SETTINGS["weight_decay"] for step in range(steps)]))


def plain(model: Classifier, train: TextBatches) -> Classifier:
    """Train all weights by AdamW as it is printed (Loshchilov and Hutter 2019), in float64."""
    model.double().train()
    weights = list(model.parameters())
    m, v = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    order, step, clipped = np.random.default_rng(SEED), 0, 0
    for _ in range(3):
        for rows in train.epoch(order, SETTINGS["batch_size"], 16_384):
            model.zero_grad()
            model(train.gather(rows), train.targets(rows)).loss.backward()
            with torch.no_grad():
                gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
                scale = min(1.0, SETTINGS["clip"] / (1e-6 + sum(float((g**2).sum()) for g in gradients) ** 0.5))
                lr, clipped = rate(step), clipped + (scale < 1)
                step += 1
                for w, g, a, b in zip(weights, gradients, m, v, strict=True):
                    a.mul_(0.9).add_(0.1 * scale * g)
                    b.mul_(0.999).add_(0.001 * (scale * g) ** 2)
                    if w.dim() > 1:
                        w.mul_(1 - lr * SETTINGS["weight_decay"])
                    w.sub_(lr * (a / (1 - 0.9**step)) / ((b / (1 - 0.999**step)).sqrt() + SETTINGS["epsilon"]))
    assert step == 12 and clipped >= 6
    return model


def trained(
    name: str = "embedding", make: Callable[..., Any] = label_objective, dev: TextBatches = DEV, **more: Any
) -> Trainer:
    """Return a finished training by the Trainer."""
    settings = {key: more.pop(key) for key in list(more) if key in TrainingConfig.__dataclass_fields__}
    config = TrainingConfig(**{**SETTINGS, **settings})
    made = Trainer(model_of(name), make(TRAIN, dev, config), seed=SEED, **more)
    made.run()
    return made


def whole(monkeypatch: pytest.MonkeyPatch, *given: Any, **more: Any) -> Trainer:
    """Return the same training with the whole table on the optimizer."""
    with monkeypatch.context() as patch:
        patch.setattr(used_rows, "MAX_SHARE", 0.0)
        made = trained(*given, **more)
    assert made.used_rows is None
    return made


def check_equal(one: Trainer, other: Trainer) -> None:
    """Compare weights and histories; the rows that train lacks have moved."""
    assert one.used_rows is not None and one.used_rows.ids.tolist() == USED
    for key, value in other.model.state_dict().items():
        torch.testing.assert_close(one.model.state_dict()[key], value, rtol=0, atol=1e-6)
    assert len(one.record.history) == len(other.record.history)
    for line, wanted in zip(one.record.history, other.record.history, strict=True):
        assert line == pytest.approx(wanted, abs=1e-6)
    assert not torch.allclose(table_of(one.model)[NEW[0] : NEW[1]], table_of(model_of())[NEW[0] : NEW[1]])


def test_a_row_that_train_lacks_decays_with_the_rate_of_the_table() -> None:
    before = table_of(model_of("transformer"))
    found = table_of(trained("transformer", plan=Plan(12, 12), layer_decay=0.25).model)
    decay = np.prod([1 - 0.25 * rate(step) * SETTINGS["weight_decay"] for step in range(12)])
    np.testing.assert_allclose(found[ABSENT].double(), before[ABSENT].double() * decay, rtol=1e-7, atol=1e-9)
    assert decay > product(12) + 0.1


@pytest.mark.parametrize("name", sorted(PARTS.keys() - {"dropout"}))
def test_training_equals_printed_adamw_on_all_rows(name: str) -> None:
    wanted = plain(model_of(name), TRAIN)
    found = trained(name, plan=Plan(12, 12))
    assert found.used_rows is not None
    for key, value in wanted.state_dict().items():
        torch.testing.assert_close(found.model.state_dict()[key].double(), value.double(), rtol=0, atol=1e-6)


def test_a_row_that_train_lacks_is_its_first_value_times_the_product_of_decays() -> None:
    before, found = table_of(model_of()), table_of(trained(plan=Plan(12, 12)).model)
    np.testing.assert_allclose(found[ABSENT].double(), before[ABSENT].double() * product(12), rtol=1e-7, atol=1e-9)
    assert 0.5 < product(12) < 0.8
    assert (found[USED] - before[USED] * product(12)).abs().amax(1)[6:].gt(1e-3).all(), "train's own words are trained"


@pytest.mark.parametrize("name", sorted(PARTS.keys() - {"dropout"}))
def test_scores_on_dev_words_that_train_lacks_equal_those_of_the_whole_table(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = trained(name, evaluations=2), whole(monkeypatch, name, evaluations=2)
    assert one.used_rows is not None
    for line, wanted in zip(one.record.history, other.record.history, strict=True):
        assert line == pytest.approx(wanted, abs=2e-6)
    assert len(one.record.history) == 6


def test_the_best_weights_have_the_decay_of_their_step(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"evaluations": 4, "dev": wrong_labels(DEV)}
    one, other = trained(**settings), whole(monkeypatch, **settings)
    assert 1 <= one.record.step == other.record.step < 12
    check_equal(one, other)
    factor = float(table_of(one.model)[UNKNOWN, 0] / table_of(model_of())[UNKNOWN, 0])
    assert factor == pytest.approx(product(one.record.step), abs=1e-6)


class Fault(Classification):
    """Objective whose loss is NaN at step 7."""

    steps = 0

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """Return the loss of a batch."""
        self.steps += 1
        return super().loss(model, batch) * (float("nan") if self.steps == 7 else 1.0)


def test_a_rollback_restores_all_rows_and_their_decay(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"rollbacks": 1, "evaluations": 2}
    one, other = trained(make=Fault, **settings), whole(monkeypatch, make=Fault, **settings)
    assert one.position.rollbacks == 1
    check_equal(one, other)


def test_a_model_in_training_answers_with_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Trainer(model_of(), label_objective(TRAIN, DEV, TrainingConfig(**SETTINGS)), seed=SEED)
    assert made.used_rows is not None
    for rows in TRAIN.epoch(np.random.default_rng(0), 8, 999):
        made._step(Batch(TRAIN, rows))
    tokens, model = DEV.gather(np.arange(20)), made.model.eval()
    before = model(tokens).logits
    made.used_rows.put_back()
    assert model(tokens).logits.equal(before), "the same bits"
    table = model.encoder.token_table
    assert "forward" not in vars(table) and "decay" not in dict(table.named_buffers())
    assert table.weight is made.used_rows.whole and table.weight.shape == (VOCABULARY, 8) and table.weight.requires_grad


def test_the_optimizer_has_only_the_rows_of_train() -> None:
    made = Trainer(model_of(), label_objective(TRAIN, DEV, TrainingConfig(**SETTINGS)), seed=SEED)
    sizes = [tuple(p.shape) for p in made.optimizer.param_groups[0]["params"]]
    assert (len(USED), 8) in sizes and (VOCABULARY, 8) not in sizes


def test_a_token_that_train_lacks_is_refused_in_training() -> None:
    made = Trainer(model_of(), label_objective(TRAIN, DEV, TrainingConfig(**SETTINGS)), seed=SEED)
    with pytest.raises(IndexError):
        made.model.train()(DEV.gather(np.arange(20)))


@pytest.mark.parametrize("killed", [2, 6, 9])
def test_a_resumed_training_ends_with_the_same_bits(killed: int, tmp_path: Path) -> None:
    config = TrainingConfig(**{**SETTINGS, "evaluations": 2})

    def made(folder: Path | None) -> Trainer:
        objective = label_objective(TRAIN, wrong_labels(DEV), config)
        checkpoints = None if folder is None else Always(folder)
        return Trainer(model_of("dropout"), objective, seed=SEED, checkpoints=checkpoints)

    def kill(*_: object) -> None:
        if first.position.step == killed:
            raise KilledError

    uninterrupted = made(None)
    wanted = uninterrupted.run()
    first = made(tmp_path)
    first.optimizer.register_step_post_hook(kill)
    with pytest.raises(KilledError):
        first.run()
    second = made(tmp_path)
    found = second.run()
    assert second.first_step == killed and asdict(found) == asdict(wanted)
    for key, value in uninterrupted.model.state_dict().items():
        assert second.model.state_dict()[key].equal(value), key


@pytest.mark.parametrize(("padding", "still"), [(4, [1]), (9, []), (None, [])])
def test_the_row_of_the_padding_has_no_gradient(padding: int | None, still: list[int]) -> None:
    table = nn.Embedding(10, 2, padding_idx=padding)
    rows = UsedRows(table, np.array([2, 4, 7]))
    table(torch.tensor([[2, 4, 4, 7]])).sum().backward()
    assert table.weight.grad is not None
    wanted = torch.tensor([1.0, 2.0, 1.0])
    wanted[still] = 0.0
    assert table.weight.grad[:, 0].equal(wanted)
    rows.put_back()


# Decisions


@pytest.mark.parametrize(("optimizer", "used"), [("adamw", True), ("adam", False), ("adadelta", False)])
def test_only_adamw_leaves_rows_out(optimizer: str, used: bool) -> None:
    config = TrainingConfig(**{**SETTINGS, "optimizer": optimizer})
    assert (use_rows(model_of(), label_objective(TRAIN, DEV, config), config) is not None) is used


@pytest.mark.parametrize(("words", "used"), [((10, 34), True), ((10, 35), False)])
def test_a_table_of_which_more_than_half_occurs_is_trained_as_a_whole(words: tuple[int, int], used: bool) -> None:
    """Six ids around every text and 24 words are 30 of 60 rows."""
    config, train = TrainingConfig(**SETTINGS), texts(200, 0, words)
    assert len(train.used_ids()) == 6 + words[1] - words[0]
    assert (use_rows(model_of(), label_objective(train, DEV, config), config) is not None) is used


def tied(model: Classifier) -> None:
    out = nn.Linear(8, VOCABULARY, bias=False)
    out.weight = model.encoder.token_table.weight
    model.head.register_module("words", out)


def frozen(model: Classifier) -> None:
    model.encoder.token_table.weight.requires_grad_(False)


def without_table(model: Classifier) -> None:
    del model.encoder.embedding


@pytest.mark.parametrize("change", [tied, frozen, without_table])
def test_a_tied_or_frozen_table_is_left_as_it_is(change: Callable[[Classifier], None]) -> None:
    config, model = TrainingConfig(**SETTINGS), model_of()
    change(model)
    assert use_rows(model, label_objective(TRAIN, DEV, config), config) is None


def test_an_objective_that_reads_all_rows_keeps_the_whole_table() -> None:
    class ReadsAll(Classification):
        def used_ids(self) -> None:  # type: ignore[override]
            return None

    config = TrainingConfig(**SETTINGS)
    assert use_rows(model_of(), ReadsAll(TRAIN, DEV, config), config) is None
