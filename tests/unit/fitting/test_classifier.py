"""scikit-learn's estimator: its contract by scikit-learn's own checks, and one real training."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MultiLabelBinarizer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

import epigram
from epigram.core.errors import ParameterError
from epigram.fitting import classifier, estimates
from epigram.fitting.classifier import Classifier
from tests.unit.fitting.test_fit import shop


class QuickModel:
    """A logistic regression in place of the model of a fit; its labels have another order than the classes."""

    def __init__(self, texts: list[str], labels: list[Any]) -> None:
        self.binarizer = MultiLabelBinarizer() if isinstance(labels[0], list) else None
        target = labels if self.binarizer is None else self.binarizer.fit_transform(labels)
        linear: Any = LogisticRegression(C=100.0)
        linear = linear if self.binarizer is None else OneVsRestClassifier(linear)
        self.pipeline = Pipeline([("count", TfidfVectorizer(token_pattern=r"\S+")), ("fit", linear)])
        self.pipeline.fit(texts, target)
        self.known = list(self.pipeline.classes_ if self.binarizer is None else self.binarizer.classes_)
        self.labels = self.known[::-1]

    @property
    def predictor(self) -> QuickModel:
        return self

    def choose(self, probabilities: Any) -> Any:
        return probabilities.argmax(-1)

    def probabilities(self, texts: Iterable[str]) -> Any:
        return self.pipeline.predict_proba(list(texts))[:, ::-1]

    def predict(self, texts: Iterable[str]) -> list[SimpleNamespace]:
        rows = self.probabilities(texts)
        chosen = rows > 0.5 if self.binarizer else rows == rows.max(axis=1, keepdims=True)
        return [SimpleNamespace(labels=[self.labels[c] for c in np.flatnonzero(row)]) for row in chosen]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings take milliseconds."""
    monkeypatch.setattr(classifier, "fit", lambda texts, labels, **settings: QuickModel(texts, labels))


class OnNumbers(Classifier):
    """The classifier on rows of numbers, which it writes as words: scikit-learn's checks have no texts."""

    def fit(self, X: Any, y: Any) -> Classifier:
        return super().fit(words(validate_data(self, X)), y)

    def predict(self, X: Any) -> Any:
        return super().predict(words(validate_data(self, X, reset=False)))

    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(words(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, False, True
        tags.non_deterministic = False  # the logistic regression reads no clock
        return tags


def words(rows: Any) -> list[str]:
    """Return each row as a text with a word for each column: its number and its value in halves."""
    return [" ".join(f"c{column}v{round(2 * value)}" for column, value in enumerate(row)) for row in rows.tolist()]


@parametrize_with_checks([Classifier()])
def test_scikit_learn_s_checks_without_data_pass(estimator: Any, check: Any) -> None:
    check(estimator)  # scikit-learn skips all others, because the input is no matrix


# scikit-learn itself skips three more: two without its array API or pandas, and one for estimators with a
# decision_function, which a model with probabilities does not need.
LISTS = "a list of lists has the labels of each text; scikit-learn takes it for an indicator matrix"
SKIPPED = {"check_classifiers_multilabel_representation_invariance": LISTS}


@pytest.mark.usefixtures("quick")
@parametrize_with_checks([OnNumbers()], expected_failed_checks=lambda estimator: SKIPPED)
def test_scikit_learn_s_checks_pass_on_numbers_written_as_words(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pretrained encoder is installed."""
    monkeypatch.setattr(estimates, "installed_encoder", lambda language: None)


@pytest.mark.usefixtures("no_encoder")
def test_a_fitted_classifier_is_the_model_of_fit_and_survives_a_pickle() -> None:
    texts, labels = shop()
    stars = [1 if label == "food" else 10 for label in labels]  # in the order of texts, 10 is before 5
    made = epigram.Classifier(budget="30s").fit(texts, stars)
    assert made.classes_.tolist() == [1, 10] and made.model_.name == "tfidf_svm"
    assert made.predict(["the old soup", "a big window"]).tolist() == [1, 10]
    assert np.array_equal(made.predict_proba(texts), made.model_.probabilities(texts))
    assert made.score(texts, stars) > 0.9 and not hasattr(made, "n_features_in_")
    copied = pickle.loads(pickle.dumps(made))  # noqa: S301
    assert np.array_equal(copied.predict_proba(texts), made.predict_proba(texts))
    assert copied.model_.report(show=False).read_bytes() == made.model_.report(show=False).read_bytes()
    assert [path.name for path in copied.model_.steps.folder.iterdir()] == ["compared"]  # the texts stay behind


LETTERS = ["a a a", "b b b", "c c c", "a a b", "b b c", "a c c"] * 5
TWO = [["x"], ["y"], [], ["x", "y"], ["y"], ["x"]] * 5


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("texts", "y", "classes"),
    [
        (LETTERS[:2] * 9, ["good", "bad"] * 9, ["bad", "good"]),
        (LETTERS[:3] * 9, [9, 10, 2] * 9, [2, 9, 10]),
        (LETTERS[:2] * 9, np.array([True, False] * 9), [False, True]),
        (np.array(LETTERS[:2] * 9), np.array(["good", "bad"] * 9, dtype=object), ["bad", "good"]),
        (LETTERS, TWO, ["x", "y"]),
        (LETTERS, [[8 if each == "x" else 12 for each in row] for row in TWO], [8, 12]),
        (LETTERS, np.array([["x" in row, "y" in row] for row in TWO]).astype(int), [0, 1]),
        (LETTERS, csr_matrix(np.array([["x" in row, "y" in row, False] for row in TWO]).astype(int)), [0, 1, 2]),
    ],
)
def test_labels_of_any_kind_come_back(texts: Any, y: Any, classes: list[Any]) -> None:
    made = Classifier().fit(texts, y)
    given: Any = y.toarray() if hasattr(y, "toarray") else y
    found: Any = made.predict(texts)
    assert made.classes_.tolist() == classes
    assert (found if isinstance(found, list) else found.tolist()) == (given if isinstance(y, list) else given.tolist())
    probabilities = made.predict_proba(texts)
    known = [row if isinstance(row, list) else [row] for row in made.predict(texts)]
    if getattr(found, "ndim", 1) > 1:
        known = [[place for place, one in enumerate(row) if one] for row in found]
    assert [[classes[c] for c in np.flatnonzero(row > 0.5)] for row in probabilities] == known
    assert probabilities.shape[1] == len(classes)  # with the label 2, which no text has


@pytest.mark.usefixtures("quick")
def test_pipelines_cross_validation_and_a_grid_search_take_it() -> None:
    texts, labels = shop()
    loud = [text.upper() for text in texts]
    whole = Pipeline([("low", FunctionTransformer(lambda X: [x.lower() for x in X])), ("text", Classifier())])
    assert cross_val_score(whole, loud, labels, cv=3).min() > 0.8
    search = GridSearchCV(Classifier(budget="5s"), {"language": ["en", "zh"]}, cv=2).fit(texts, labels)
    assert search.best_params_ == {"language": "en"} and search.predict(["the old soup"]).tolist() == ["food"]
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


def test_the_parameters_reach_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(classifier, "fit", lambda texts, labels, **settings: given.update(settings))
    settings = {"budget": "9s", "metric": "macro_f1", "language": "zh", "verbose": True}
    Classifier(**settings).fit(*shop())
    assert given == settings


@pytest.mark.parametrize(
    ("texts", "y", "error", "said"),
    [
        (LETTERS[:2], ["a"], ValueError, "inconsistent numbers of samples"),
        (LETTERS[:2], None, ValueError, "requires y"),
        (LETTERS[:2], ["a", "a"], ValueError, r"y has one class, \['a'\]"),
        (LETTERS[:2], [0.5, 1.5], ValueError, "Unknown label type"),
        (LETTERS[:2], ["a", "a "], ParameterError, "y has the label 'a '"),
        ([1, 2], ["a", "b"], ParameterError, "expected str"),
        ("ab", ["a", "b"], ParameterError, "pass a list"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(texts: Any, y: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Classifier().fit(texts, y)
    with pytest.raises(NotFittedError):
        Classifier().predict(["a text"])
