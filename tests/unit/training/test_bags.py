"""Tests of the training of fast_text on bags, against sums by hand and against the dense training on tokens."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.models.predict import predict
from epigram.nn.encoders.fast_text import FastTextConfig
from epigram.nn.heads.linear import LinearConfig
from epigram.nn.layers.ngrams import ngram_buckets
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.training.config import TrainingConfig
from epigram.training.distributed import parallel
from epigram.training.linear.bags import BagTexts, as_bags, learns_from_bags
from epigram.training.loop.plan import Plan
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective
from tests.support.runs import Always, KilledError

VOCABULARY, BUCKETS, CLASSES, PAD, UNKNOWN = 30, 40, 3, 0, 1
CONFIG = TrainingConfig(
    optimizer="row_adagrad", epochs=3, batch_size=8, learning_rate=0.05, clip=None, patience=9, precision="fp32"
)
SOFT = np.random.default_rng(7).dirichlet(np.ones(CLASSES), 40).astype(np.float32)


def model_of(*, multi: bool = False, pool: Any = "mean", dropout: float = 0.0, **encoder: Any) -> NeuralClassifier:
    torch.manual_seed(0)
    weight = torch.linspace(0.5, 1.5, VOCABULARY)
    context = DataSpec(vocabulary=VOCABULARY, classes=CLASSES, max_length=9, multi=multi, pos_weight=weight)
    built = FastTextConfig(width=6, buckets=BUCKETS, **encoder).build(context)
    return NeuralClassifier(built, LinearConfig(pool=pool, dropout=dropout).build(context, built), multi=multi)


def batches(rows: list[list[int]], labels: Any = None, **more: Any) -> TextBatches:
    settings = {"prefix": [], "suffix": [], "max_length": 9, "pad_id": PAD, "unk_id": UNKNOWN} | more
    return Shuffled(Ragged.from_lists(rows, np.int32), labels=labels, **settings)


class Shuffled(TextBatches):
    """Texts whose batches are those of bags."""

    epoch = BagTexts.epoch


def texts(count: int, seed: int, kind: str = "single") -> TextBatches:
    """Return texts of one to twelve words, the longest of which are truncated; a word tells the class."""
    random = np.random.default_rng(seed)
    rows = [random.integers(2, 20 + 10 * seed, random.integers(1, 13)).tolist() for _ in range(count)]
    single = np.array([row[0] % CLASSES for row in rows])
    multi = np.array([[row[0] % 2, row[-1] % 2, len(row) % 2] for row in rows], np.uint8)
    return batches(rows, {"single": single, "multi": multi, "soft": SOFT[:count]}[kind])


def bucket(model: Any, *gram: int) -> int:
    """Return the column of an n-gram."""
    ids = torch.tensor([gram])
    found = ngram_buckets(Tokens(ids, ids >= 0), VOCABULARY, [len(gram)], BUCKETS)
    return VOCABULARY + int(found[0, 0, 0])


def tables(model: Any) -> tuple[Any, Any]:
    """Return the vectors of tokens and of n-grams."""
    return model.encoder.embedding.token, model.encoder.ngrams


def trained(
    train: TextBatches, dev: TextBatches | None, config: TrainingConfig, *, dense: bool = False, **model: Any
) -> tuple[Any, Trainer]:
    """Return a trained model and its trainer; `dense`: trained on tokens."""
    made, settings = model_of(**model), replace(config, optimizer="adamw") if dense else config
    with as_bags(made, train, dev, settings) as (bags, held_out):
        objective = label_objective(bags, held_out, config, keeps_logits=True)
        plan = Plan(7, 15) if dev is None else None
        trainer = Trainer(made, objective, seed=3, plan=plan)
        trainer.run()
    return made, trainer


# Bags


def shares(model: Any, given: TextBatches) -> Any:
    """Return the share of each vector in each text, (N, V + K)."""
    texts = BagTexts.of(model.encoder, given)
    found = np.zeros((len(given), VOCABULARY + BUCKETS))
    for row in range(len(given)):
        bags = texts.gather(np.array([row])).bags
        np.add.at(found[row], bags.columns.values, bags.shares())
    return found


def test_a_bag_has_the_tokens_and_the_ngrams_of_a_text_each_with_its_share() -> None:
    """A text of three tokens has three words, two 2-grams and one 3-gram: six features."""
    model = model_of()
    bags = shares(model, batches([[5, 6, 7], [8]]))
    wanted = np.zeros((2, VOCABULARY + BUCKETS))
    for column in (5, 6, 7, bucket(model, 5, 6), bucket(model, 6, 7), bucket(model, 5, 6, 7)):
        wanted[0, column] += 1 / 6
    wanted[1, 8] = 1.0
    np.testing.assert_allclose(bags, wanted, rtol=1e-6)


def test_empty_texts_are_unknown_tokens_and_the_prompt_and_truncation_are_as_in_batches() -> None:
    model = model_of(orders=[2])
    bags = shares(model, batches([[5, 6, 7], []], prefix=[2], suffix=[3], max_length=4))
    wanted = np.zeros((2, VOCABULARY + BUCKETS))
    for row, ids in enumerate(([2, 5, 6, 3], [2, UNKNOWN, 3])):
        features = [*ids, *(bucket(model, *pair) for pair in pairwise(ids))]
        for column in features:
            wanted[row, column] += 1 / len(features)
    np.testing.assert_allclose(bags, wanted, rtol=1e-6)
    assert not bags[:, PAD].any()


@pytest.mark.parametrize("pos_weight", ["none", "embedding"])
def test_bags_times_vectors_are_the_mean_states_of_the_encoder(pos_weight: Any) -> None:
    model, given = model_of(pos_weight=pos_weight), texts(40, 0)
    encoder: Any = model.encoder
    encoder.ngrams.weight.data[:BUCKETS].normal_()
    table = torch.cat([encoder.embedding.token.weight, encoder.ngrams.weight[:BUCKETS]]).detach().numpy()
    tokens = given.gather(np.arange(40))
    wanted = model.head.text_states(encoder(tokens)).detach().numpy()  # type: ignore[operator]
    np.testing.assert_allclose(shares(model, given) @ table, wanted, rtol=1e-4, atol=1e-6)


def test_an_epoch_has_every_text_once_in_batches_of_any_lengths() -> None:
    bags = BagTexts.of(model_of().encoder, texts(40, 0))  # type: ignore[arg-type]
    batches, others = (bags.epoch(np.random.default_rng(seed), 8, 1000) for seed in (0, 1))
    assert [len(rows) for rows in batches] == [8] * 5
    assert sorted(np.concatenate(batches)) == list(range(40))
    assert np.concatenate(batches).tolist() != np.concatenate(others).tolist()
    assert all(np.ptp(bags.lengths[rows]) > 3 for rows in batches)


# Training


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("single", {}),
        ("single", {"class_weight": "balanced"}),
        ("single", {"label_smoothing": 0.2, "focal_gamma": 1.5}),
        ("single", {"schedule": "plateau", "patience": 2, "evaluations": 3}),
        ("single", {"schedule": "constant", "warmup": 0.3, "epsilon": 0.01, "max_tokens": 30}),
        ("single", {"min_steps": 20, "stop_on": "macro_f1", "evaluation_steps": 2, "patience_steps": 6}),
        ("multi", {"class_weight": "balanced"}),
        ("soft", {}),
    ],
)
def test_the_training_equals_that_on_tokens(kind: str, changes: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"multi": kind == "multi", "dropout": 0.3}
    config = replace(CONFIG, **changes)
    train, dev = texts(40, 0, kind), texts(20, 1, "multi" if kind == "multi" else "single")
    (model, ours), (dense, theirs) = (trained(train, dev, config, dense=each, **settings) for each in (False, True))
    for name, wanted in dense.state_dict().items():
        np.testing.assert_allclose(model.state_dict()[name], wanted, atol=2e-5, err_msg=name)
    found, expected = asdict(ours.record), asdict(theirs.record)
    assert found.pop("history") == [pytest.approx(line, rel=1e-4) for line in expected.pop("history")]
    assert found.pop("score") == pytest.approx(expected.pop("score"), rel=1e-4)
    assert found == expected
    assert all(np.allclose(each, theirs.evaluated[step], atol=1e-4) for step, each in ours.evaluated.items())


def test_the_training_by_a_plan_equals_that_on_tokens() -> None:
    (model, _), (dense, _) = (trained(texts(40, 0), None, CONFIG, dense=each) for each in (False, True))
    for name, wanted in dense.state_dict().items():
        np.testing.assert_allclose(model.state_dict()[name], wanted, atol=2e-5, err_msg=name)


def test_batches_in_halves_have_the_same_gradients() -> None:
    """After out of memory, both halves of a batch add to the gradients before the step."""
    train, dev, config = texts(40, 0), texts(20, 1), CONFIG
    (whole, _), halved = trained(train, dev, config), model_of()
    with as_bags(halved, train, dev, config) as texts_of:
        trainer = Trainer(halved, label_objective(*texts_of, config), seed=3)
        trainer.position.pieces = 2
        trainer.run()
    for name, wanted in whole.state_dict().items():
        np.testing.assert_allclose(halved.state_dict()[name], wanted, atol=2e-5, err_msg=name)


def test_a_step_has_gradients_of_the_vectors_of_its_own_batch_alone() -> None:
    model, given = model_of(orders=[2]), batches([[5, 6], [7, 8]], np.array([0, 1]))
    with as_bags(model, given, None, CONFIG) as (bags, _):
        for row, ids in ((0, [5, 6]), (1, [7, 8])):
            model.zero_grad()
            some = np.array([row])
            model(bags.gather(some), bags.targets(some)).loss.backward()
            tokens, ngrams = (table.weight.grad.indices()[0].tolist() for table in tables(model))
            assert (tokens, ngrams) == (ids, [bucket(model, *ids) - VOCABULARY])


def test_the_vectors_of_absent_tokens_and_ngrams_keep_all_bits() -> None:
    train, initial = texts(40, 0), model_of().state_dict()
    model, _ = trained(train, texts(20, 1), CONFIG)
    used = np.flatnonzero(shares(model, train).any(0))
    table = torch.cat([model.encoder.embedding.token.weight, model.encoder.ngrams.weight]).detach().numpy()
    before = torch.cat([initial["encoder.embedding.token.weight"], initial["encoder.ngrams.weight"]]).numpy()
    changed = np.flatnonzero((table != before).any(1))
    np.testing.assert_array_equal(changed, used)
    assert len(used) < len(table) - 9


def test_the_trained_model_reads_tokens_again() -> None:
    model, trainer = trained(texts(40, 0), texts(20, 1), CONFIG)
    assert "forward" not in vars(model.encoder)
    predicted = predict(model, texts(20, 1), precision="fp32")
    np.testing.assert_allclose(predicted.logits, trainer.evaluated[trainer.record.step], atol=1e-5)


def test_the_model_reads_tokens_again_after_an_error() -> None:
    model = model_of()
    with pytest.raises(KilledError), as_bags(model, texts(4, 0), None, CONFIG):
        assert "forward" in vars(model.encoder)
        raise KilledError
    assert "forward" not in vars(model.encoder)


def test_a_resumed_training_has_the_same_bits(tmp_path: Path) -> None:
    train, dev = texts(40, 0), texts(20, 1)
    whole, _ = trained(train, dev, CONFIG, dropout=0.3)

    def begun(stop: int) -> Any:
        model = model_of(dropout=0.3)
        with as_bags(model, train, dev, CONFIG) as (bags, held_out):
            trainer = Trainer(
                model, label_objective(bags, held_out, CONFIG), seed=3, checkpoints=Always(tmp_path / "steps")
            )

            def report(progress: Any) -> None:
                if progress.epoch == stop:
                    raise KilledError

            trainer.report = report
            trainer.run()
        return model, trainer

    with pytest.raises(KilledError):
        begun(2)
    model, trainer = begun(-1)
    assert trainer.first_step > 0
    for name, wanted in whole.state_dict().items():
        assert torch.equal(model.state_dict()[name], wanted), name


# Where it is used


@pytest.mark.parametrize(
    ("model", "config"),
    [
        ({"pool": "max"}, CONFIG),  # reads more than the mean
        ({}, replace(CONFIG, optimizer="adamw")),  # changes rows without a gradient
        ({}, replace(CONFIG, clip=0.02)),  # PyTorch clips no sparse gradients
    ],
)
def test_other_trainings_read_tokens(model: dict[str, Any], config: TrainingConfig) -> None:
    made, train = model_of(**model), texts(4, 0)
    with as_bags(made, train, None, config) as (same, _):
        assert same is train
        assert "forward" not in vars(made.encoder)


def test_processes_that_train_together_read_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert learns_from_bags(model_of(), CONFIG)
    monkeypatch.setattr(parallel, "processes", lambda: 2)
    assert not learns_from_bags(model_of(), CONFIG)
