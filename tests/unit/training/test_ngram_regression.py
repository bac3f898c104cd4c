"""Tests of the linear head on encodings and n-grams: its features, which knowledge it uses, and what dev chooses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.feature_extraction.text import TfidfVectorizer

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.inference.predictors.predictor import Predictor
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.models.predict import predict
from epigram.models.recipe import Recipe
from epigram.models.serialization import load
from epigram.nn.heads.linear_ngrams import LinearNgramsConfig, LinearNgramsHead
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import TrainingConfig
from epigram.training.fitters import FitOptions
from epigram.training.frozen.known_encodings import Encodings
from epigram.training.linear import ngram_regression
from epigram.training.linear.ngram_regression import Features, ngram_matrix, set_idf
from tests.support.trained import train_seed

ROWS = [[5, 6, 5, 7], [6], [8, 8, 8], [5, 6]]
SMALL = Recipe(name="mine", about="", paper="", view="token", model={"kind": "frozen_classifier"},
               encoder={"kind": "embedding", "width": 8}, head={"kind": "linear_ngrams"})  # fmt: skip
CONFIG = TrainingConfig(threads=1)


def texts(rows: list[list[int]], prefix: list[int], suffix: list[int]) -> TextBatches:
    return TextBatches(
        Ragged.from_lists(rows, np.int64), prefix=prefix, suffix=suffix, max_length=16, pad_id=0, unk_id=1,
        labels=np.zeros(len(rows), np.int64),
    )  # fmt: skip


def width(number: int) -> Any:
    """Return what a head reads of an encoder without layers."""
    return SimpleNamespace(width=number, state_count=1)


def head_of(prefix: list[int], suffix: list[int]) -> LinearNgramsHead:
    context = DataSpec(vocabulary=20, classes=2, max_length=16, prefix_ids=tuple(prefix), suffix_ids=tuple(suffix))
    return LinearNgramsHead(LinearNgramsConfig(), context, width(4))


@pytest.mark.parametrize(("prefix", "suffix"), [([], []), ([2], [3]), ([2, 5, 6], [3])])
def test_the_values_are_scikit_learn_s_tf_idf_whatever_the_prompt(prefix: list[int], suffix: list[int]) -> None:
    """The prompt 5 6 is in every text and is not counted."""
    head, batches = head_of(prefix, suffix), texts(ROWS, prefix, suffix)
    known = set_idf(head, batches)
    found = ngram_matrix(head, batches)[:, known].toarray()
    reading = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")
    wanted = reading.fit_transform([" ".join(map(str, row)) for row in ROWS]).toarray()
    assert found.shape == wanted.shape
    assert_allclose(sorted(map(tuple, found.T)), sorted(map(tuple, wanted.T)), atol=1e-6)


def test_an_n_gram_that_train_lacks_does_not_count() -> None:
    head = head_of([], [])
    set_idf(head, texts(ROWS, [], []))
    known, mixed = (ngram_matrix(head, texts([row], [], [])).toarray() for row in ([6], [6, 19]))
    assert_allclose(mixed, known, atol=1e-6)
    assert ngram_matrix(head, texts([[19]], [], [])).nnz == 0 or not ngram_matrix(head, texts([[19]], [], [])).max()


def two_kinds(count: int, seed: int) -> list[tuple[str, str]]:
    """Return texts whose label is in the order of two words: only a bigram tells it."""
    random = np.random.default_rng(seed)
    return [(("not good" if label else "good not") + " film" * int(n % 3), ["neg", "pos"][label])
            for n, label in enumerate(random.integers(0, 2, count))]  # fmt: skip


def test_it_uses_word_order_that_the_mean_of_the_encodings_loses(encoded: Callable[..., View], tmp_path: Path) -> None:
    view = encoded({name: two_kinds(40, n) for n, name in enumerate(("train", "dev", "test"))}, language="en")
    accuracy = {}
    for head in ("linear", "linear_ngrams"):
        recipe = SMALL.changed(head={"kind": head})
        train_seed("mine", recipe, CONFIG, view, None, 0, tmp_path / head)
        saved = load(tmp_path / head)
        logits = predict(saved.model, batches_of(view, "test", saved.frame)).logits
        accuracy[head] = float((logits.argmax(1) == view.split("test").labels).mean())
    assert accuracy["linear_ngrams"] == 1.0
    assert accuracy["linear"] < 0.8


def test_it_uses_the_encodings_where_no_n_gram_is_known(
    encoded: Callable[..., View], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text has a word of its own; the encoder, which is given, knows which words are alike."""
    names = {part: [f"{part}{n}" for n in range(20)] for part in ("train", "dev", "test")}
    rows = {part: [(word, ["neg", "pos"][n % 2]) for n, word in enumerate(words)] for part, words in names.items()}
    view = encoded(rows, language="en")
    model: Any = SMALL.build(DataSpec(vocabulary=view.vocabulary, classes=2, max_length=8))
    batches = {part: batches_of(view, part, saved_frame(view)) for part in names}  # type: ignore[arg-type]
    encodings = {part: np.array([[9.0, 3.0] if y else [7.0, 3.0] for y in view.split(part).labels]) for part in names}
    context = DataSpec(vocabulary=view.vocabulary, classes=2, max_length=8)
    head = LinearNgramsHead(LinearNgramsConfig(), context, width(2))
    model.head = head
    options = FitOptions(config=CONFIG, path="systems.x", seed=0)
    given = Encodings(encodings["train"], encodings["dev"])
    problem = ngram_regression.NgramProblem(model, batches["train"], batches["dev"], given, options)
    problem.install(model, problem.choose([problem]))
    with torch.no_grad():
        logits = head.out(torch.from_numpy(encodings["test"]).float())
    assert (logits.argmax(1).numpy() == view.split("test").labels).all()


def saved_frame(view: View) -> Any:
    from epigram.inference.predictors.dataset_batches import template_of

    return template_of(view, 8)


@pytest.mark.parametrize(("scale", "penalty"), [(4.0, 4.0), (0.5, 0.25)])
def test_dev_chooses_scale_and_penalty(scale: float, penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of a fit is given: it is lowest at one scale and one penalty, on dev."""
    asked: list[tuple[float, float]] = []

    def fitted(x: Any, labels: Any, classes: int, options: Any) -> tuple[Any, Any]:
        asked.append((float(x[0, 0]), options.penalty))
        return np.array([[1.0, -1.0]]) / x[0, 0] * 2.0 ** -(
            abs(np.log2(x[0, 0] / scale)) + abs(np.log2(options.penalty / penalty))
        ), np.zeros(2)

    monkeypatch.setattr(ngram_regression, "fit_svms", fitted)
    monkeypatch.setattr(ngram_regression, "fit_scale", lambda *_: 1.0)
    best = made_problem(np.ones((3, 1)))
    choice = best.choose([best])
    assert choice == (scale, penalty, 1.0, 0.0)
    assert asked[:4] == [(each, 1.0) for each in ngram_regression.SCALES]
    assert asked[4:] == [(scale, 0.25), (scale, 4.0)]
    assert best.solution(choice)[0][0, 0] * scale == pytest.approx(1.0)
    assert len(asked) == 6, "the chosen solution is not computed again"


def made_problem(encodings: Any, labels: Any = (0, 0, 0), held_out: Any = None) -> ngram_regression.NgramProblem:
    """Return a problem without n-grams, whose encodings are given."""
    from scipy.sparse import csr_matrix

    problem = object.__new__(ngram_regression.NgramProblem)
    problem.options, problem.classes, problem.multi = FitOptions(config=CONFIG, path="", seed=0), 2, False
    problem._solutions, problem.prior = {}, None
    labels = np.array(labels)
    none = csr_matrix((len(labels), 0))
    problem.train = Features(encodings, none, labels)
    problem.held_out = problem.train if held_out is None else Features(np.array(held_out), none, labels)
    return problem


def test_folds_choose_by_the_loss_of_all_held_out_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first fold alone would choose scale 4, by far; the three others make 0.5 the best of all."""

    def fitted(x: Any, labels: Any, classes: int, options: Any) -> tuple[Any, Any]:
        loss = abs(np.log2(x[0, 0] / (4.0 if x.shape[0] == 3 else 0.5)))
        return np.array([[1.0, -1.0]]) / x[0, 0] * 3.0**-loss, np.zeros(2)

    monkeypatch.setattr(ngram_regression, "fit_svms", fitted)
    monkeypatch.setattr(ngram_regression, "fit_scale", lambda *_: 1.0)
    first, others = made_problem(np.ones((3, 1))), [made_problem(np.ones((4, 1)), [0] * 4) for _ in range(3)]
    assert first.choose([first]).scale == 4.0
    assert first.choose([first, *others]).scale == 0.5


def test_several_labels(encoded: Callable[..., View], tmp_path: Path) -> None:
    words = [("good film", ["pos"]), ("bad film", ["neg"]), ("good bad", ["neg", "pos"]), ("film", [])] * 6
    view = encoded(dict.fromkeys(("train", "dev", "test"), words), language="en", task="multi")
    train_seed("mine", SMALL, CONFIG, view, None, 0, tmp_path / "model")
    found = [set(each.labels) for each in Predictor(tmp_path / "model").predict([text for text, _ in words[:4]])]
    assert found == [{"pos"}, {"neg"}, {"neg", "pos"}, set()]


@pytest.mark.parametrize("orders", [[], [1, 1]])
def test_wrong_orders_are_refused(orders: list[int]) -> None:
    with pytest.raises(ParameterError, match=r"head\.orders is .*; expected distinct values"):
        SMALL.changed(head={"orders": orders}).build(DataSpec(vocabulary=9, classes=2, max_length=8))


def test_the_system_is_a_classifier_of_the_frozen_kind() -> None:
    recipe = RECIPES["hybrid_linear"]
    assert (recipe.kind, recipe.view, recipe.by_gradient) == ("frozen_classifier", "wordpiece", False)
    model = SMALL.build(DataSpec(vocabulary=9, classes=2, max_length=8))
    assert isinstance(model, NeuralClassifier) and isinstance(model.head, LinearNgramsHead)
