"""What training uses of train and of dev, and that it uses nothing of test: the three contradict each other.

In train and test "good" is pos and "bad" is neg. Dev has the opposite labels, so that learning lowers its score.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tokenizers import Tokenizer
from torch import Tensor, nn

from epigram.core.arrays import Ragged
from epigram.inference.predictors.dataset_batches import batches_of, count_truncated, data_spec_of, template_of
from epigram.models.batches import TextBatches
from epigram.models.linear_svm import LinearSvmConfig
from epigram.models.predict import predict
from epigram.models.random_baseline import RandomBaselineConfig
from epigram.models.serialization import load
from epigram.nn.layers.types import DataSpec, Prediction, Tokens
from epigram.recipes.registry import RECIPES
from epigram.stages import train
from epigram.text.dataset.encoded_dataset import View
from epigram.text.pos.pos_table import build, save
from epigram.text.settings import PosTableSettings
from epigram.training import fit_system
from epigram.training.config import configure
from epigram.training.fitters import linear_svm, random_baseline
from epigram.training.tuning import tune
from tests.support.text_samples import encoded_in
from tests.support.trained import setup_of

TRUE, OPPOSITE = {"good": "pos", "bad": "neg"}, {"good": "neg", "bad": "pos"}
EPOCHS, PATIENCE = 6, 3
SYSTEM = {
    "view": "v",
    "encoder": {"width": 16},
    "train": {
        "epochs": EPOCHS,
        "min_steps": 0,
        "patience": PATIENCE,
        "batch_size": 8,
        "learning_rate": 0.05,
        "schedule": "constant",
        "warmup": 0.0,
    },
}


@pytest.fixture(scope="module")
def encode(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., View]:
    """Return a function that encodes rows in a new folder."""
    pos = tmp_path_factory.mktemp("pos")
    save(build(PosTableSettings()), pos, {})
    return lambda rows, **more: encoded_in(tmp_path_factory.mktemp("view"), pos, rows, "en", **more)


def rows(labels: dict[str, str], count: int) -> list[tuple[str, str]]:
    """Return texts of one informative word and an uninformative number."""
    return [(f"{word} {n % 5}", label) for n in range(count) for word, label in labels.items()]


def trained(view: View, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the train stage on `view` in this process; return the folder of its seed."""
    params = {"dataset": "x", "seeds": [0], "views": {"v": {}}, "systems": {"fast_text": SYSTEM}}
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    (folder / "no_pretraining").mkdir()
    (folder / "no_pretraining/about.json").write_text('{"steps": 0}')
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["train", "fast_text", str(view.folder), "no_pretraining", "out"])
    train.main()
    return folder / "out" / "seed-0"


def dev_loss(folder: Path, view: View) -> float:
    """Return the mean of -log p(label) over dev, for the model in `folder`."""
    saved, labels = load(folder), view.split("dev").labels
    saved.model.temperature.fill_(1.0)  # it is fitted after training
    p = predict(saved.model, batches_of(view, "dev", saved.frame), precision="fp32").probabilities
    return float(-np.log(p[np.arange(len(labels)), labels]).mean())


@pytest.mark.parametrize(
    ("dev", "epoch", "evaluations", "accuracy"),
    [(OPPOSITE, 1, 1 + PATIENCE, 0.0), (TRUE, EPOCHS, EPOCHS, 1.0)],
    ids=["dev says the opposite", "dev agrees"],
)
def test_the_train_stage_chooses_the_epoch_that_is_best_on_dev(
    dev: dict[str, str],
    epoch: int,
    evaluations: int,
    accuracy: float,
    encode: Callable[..., View],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On test and on train the last epoch is the best: learning always lowers their loss."""
    view = encode({"train": rows(TRUE, 40), "dev": rows(dev, 10), "test": rows(TRUE, 10)})
    folder = trained(view, tmp_path, monkeypatch)
    manifest, history = (json.loads((folder / name).read_text()) for name in ("manifest.json", "history.json"))
    losses = [line["dev_loss"] for line in history]
    assert (manifest["epoch"], len(history)) == (epoch, evaluations)
    assert losses == sorted(losses, reverse=dev is TRUE), "dev gets worse with every epoch, or better"
    assert manifest["dev_accuracy"] == accuracy
    assert dev_loss(folder, view) == pytest.approx(losses[epoch - 1], rel=1e-4)


def token_f1(model: Any, view: View) -> float:
    """Return the micro-F1 of the labels of dev's tokens other than O, label 0."""
    frame = template_of(view, 128)
    tokens, gold = predict(model, batches_of(view, "dev", frame)).tokens, view.split("dev").token_labels
    assert tokens is not None and gold is not None
    pairs = list(zip(tokens.argmax(1).tolist(), gold.tolist(), strict=True))
    hits = sum(said == label != 0 for said, label in pairs)
    return 2 * hits / (sum(said != 0 for said, _ in pairs) + sum(label != 0 for _, label in pairs))


@pytest.mark.parametrize(("share", "learns"), [(0.0, False), (1.0, True)])
def test_token_supervision_hides_labels_of_train_and_none_of_dev(
    share: float, learns: bool, encode: Callable[..., View]
) -> None:
    """`mhal_tok` learns only from token labels: its loss is 0 if train shows none."""
    labelled = [(f"{word} it", label, [word, "it"], [label, "O"]) for word, label in TRUE.items()] * 8
    corpus = dict.fromkeys(("train", "dev", "test"), labelled)
    view = encode(corpus, token_labels=["O", "neg", "pos"])
    sizes = {"embedding": 6, "width": 5, "dropout": 0.0}
    settings = {"token_supervision": share, "epochs": 2, "learning_rate": 0.05}
    recipe = RECIPES["mhal_tok"].changed(encoder=sizes, head={"hidden": 9}, train=settings)
    found = fit_system.fit_system(setup_of(recipe, configure("mine", recipe), view, seed=2))
    assert all((line["loss"] > 0) is learns for line in found.history)
    assert max(line["dev"] for line in found.history) == pytest.approx(token_f1(found.model, view))
    assert token_f1(found.model, view) > 0, "by chance without labels: otherwise this says nothing of dev"


def test_the_seed_gives_weights_and_dropout(encode: Callable[..., View]) -> None:
    view = encode({"train": rows(TRUE, 10), "dev": rows(TRUE, 3), "test": rows(TRUE, 3)})
    recipe = RECIPES["textcnn"].changed(encoder={"embedding": 4, "filters": 4}, head={}, train={"epochs": 2})
    config = configure("mine", recipe)
    first, again, other = (
        fit_system.fit_system(setup_of(recipe, config, view, seed=seed)).history for seed in (3, 3, 4)
    )
    assert first == again and first[0]["dev_loss"] != other[0]["dev_loss"]


# Settings of the view


def test_a_model_reads_as_many_tokens_as_its_setting_and_the_view_allow(encode: Callable[..., View]) -> None:
    corpus = {"train": [("a b c d e", "pos"), ("a b", "neg"), ("a b c d", "pos")], "dev": rows(TRUE, 1)}
    view = encode({**corpus, "test": [("a b c d e e e", "pos"), ("a", "neg")]}, max_length=7)
    assert [template_of(view, most).max_length for most in (3, 7, 128)] == [3, 7, 7]
    assert [count_truncated(view, template_of(view, most), "train") for most in (1, 3, 4, 5)] == [3, 2, 1, 0]


def test_label_shares_are_those_of_train(encode: Callable[..., View]) -> None:
    corpus = {"train": [*above("one two three", "one three"), ("four", ["pos"])]}
    view = encode({**corpus, "dev": above("one", "one"), "test": above("two", "two")}, task="multi")
    shares = data_spec_of(view, 8).label_shares
    assert shares is not None and shares.tolist() == [0.5, 0.75]
    assert data_spec_of(encode(dict.fromkeys(("train", "dev", "test"), rows(TRUE, 1))), 8).label_shares is None


# Thresholds


class Fixed(nn.Module):
    """Model that gives both labels the probability of a text's only word, 0.1 for "one" to 0.6 for "six"."""

    multi = True
    NUMBERS = ("one", "two", "three", "four", "five", "six")

    def __init__(self, view: View) -> None:
        super().__init__()
        ids = Tokenizer.from_file(str(view.tokenizer_json)).get_vocab()
        self.chances = {ids[word]: n / 10 for n, word in enumerate(self.NUMBERS, 1)}

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        p = torch.tensor([self.chances[int(index)] for index in tokens.ids[:, 0]])
        return Prediction(torch.stack([p, p], 1).logit())


def above(words: str, wanted: str) -> list[tuple[str, list[str]]]:
    """Return texts of one word each; those in `wanted` have both labels, the others none."""
    return [(word, ["neg", "pos"] if word in wanted.split() else []) for word in words.split()]


def test_thresholds_are_fitted_on_dev(encode: Callable[..., View]) -> None:
    corpus = {
        "train": above("one two three four five six", "six"),  # best threshold 0.55
        "dev": above("one two", "two"),  # best threshold 0.15
        "test": above("three four", "four"),  # best threshold 0.35
    }
    view = encode(corpus, task="multi")
    found = tune(Fixed(view), view, template_of(view, 8), "fp32")
    assert found == pytest.approx([0.15, 0.15])


def test_one_label_a_text_has_no_thresholds(encode: Callable[..., View]) -> None:
    view = encode({name: rows(TRUE, 1) for name in ("train", "dev", "test")})
    assert tune(None, view, template_of(view, 8), "fp32") is None


# Models that are not trained by gradient descent


def words(labels: list[int], ids: list[int]) -> TextBatches:
    """Return texts of one word each."""
    return TextBatches(
        Ragged(np.array(ids), np.arange(len(ids) + 1)), prefix=[], suffix=[], max_length=8, pad_id=0, unk_id=1,
        labels=np.array(labels),
    )  # fmt: skip


CONTEXT = DataSpec(vocabulary=9, classes=2, max_length=8)


@pytest.mark.parametrize(("right", "probability"), [(6, 13 / 18), (7, 15 / 18), (5, 11 / 18)])
def test_the_scale_of_the_svm_is_fitted_on_dev(right: int, probability: float) -> None:
    """All margins of dev are equal: the most likely scale gives each text the share of dev's texts that are right.

    With smoothed targets, the share of r of 16 texts is (r + 1) / 18. In train all texts are right, which would give
    17/18.
    """
    ids, wrong = [5] * 8 + [6] * 8, 8 - right  # of the eight texts of a class
    train = words([0] * 8 + [1] * 8, ids)
    dev = words([0] * right + [1] * wrong + [1] * right + [0] * wrong, ids)
    model = LinearSvmConfig(orders=[1], min_rows=1).build(CONTEXT)
    linear_svm.fit(model, train, dev, seed=0)
    p = predict(model, dev, precision="fp32").probabilities
    np.testing.assert_allclose(p[:8, 0], probability, atol=1e-3)
    np.testing.assert_allclose(p[8:, 1], probability, atol=1e-3)


def test_n_grams_and_frequencies_come_from_train() -> None:
    train, dev = words([0, 0, 0, 1], [5, 5, 6, 6]), words([1, 1, 1], [6, 7, 8])
    model = LinearSvmConfig(orders=[1], min_rows=1).build(CONTEXT)
    linear_svm.fit(model, train, dev, seed=0)
    assert len(model.keys) == 2
    guess = RandomBaselineConfig().build(CONTEXT)
    random_baseline.fit(guess, train, dev, seed=4)
    assert guess.frequency.tolist() == [0.75, 0.25]
    assert guess.seed.item() == 4


@pytest.mark.parametrize(("multi", "share"), [(False, 1 / 3), (True, 1 / 2)])
def test_a_uniform_draw_does_not_depend_on_the_texts_of_train(multi: bool, share: float) -> None:
    """All of train has class 0. Of 600 texts, each class gets its share, within four standard deviations."""
    train, dev = words([0] * 6, [5, 6, 7, 8, 9, 10]), words([0] * 600, list(range(600)))
    if multi:
        train.labels = torch.tensor([[1, 0, 0]] * 6, dtype=torch.uint8)
    guess = RandomBaselineConfig(draw="uniform").build(DataSpec(vocabulary=600, classes=3, max_length=8, multi=multi))
    random_baseline.fit(guess, train, train, seed=1)
    assert guess.frequency.tolist() == pytest.approx([share] * 3)
    logits = predict(guess, dev, precision="fp32").logits
    chosen = logits > 0 if multi else logits.argmax(1)[:, None] == np.arange(3)
    np.testing.assert_allclose(chosen.mean(0), share, atol=0.08)


def test_the_share_of_texts_with_each_of_several_labels() -> None:
    train = words([0, 0, 0, 0], [5, 5, 6, 6])
    train.labels = torch.tensor([[1, 0], [1, 1], [1, 0], [0, 0]], dtype=torch.uint8)
    guess = RandomBaselineConfig().build(DataSpec(vocabulary=9, classes=2, max_length=8, multi=True))
    random_baseline.fit(guess, train, train, seed=0)
    assert guess.frequency.tolist() == [0.75, 0.25]


@pytest.mark.parametrize(("features", "kept"), [(2, {5, 6}), (1, {5}), (9, {5, 6, 7})])
def test_the_most_frequent_n_grams_are_kept(features: int, kept: set[int]) -> None:
    train = words([0, 1, 0, 1, 0, 1], [5, 5, 5, 6, 6, 7])
    model = LinearSvmConfig(orders=[1], min_rows=1, features=features).build(CONTEXT)
    linear_svm.fit(model, train, train, seed=0)
    every = LinearSvmConfig(orders=[1], min_rows=1).build(CONTEXT)
    linear_svm.fit(every, train, train, seed=0)
    order = dict(zip(every.keys.tolist(), sorted({5, 6, 7}), strict=True))
    assert {order[key] for key in model.keys.tolist()} == kept
