"""Fit of the TF-IDF + linear SVM baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from epigram.core.errors import ParameterError
from epigram.models.batches import TextBatches
from epigram.models.linear_svm import LinearSvm, SvmSettings
from epigram.models.predict import Predicted, gold_labels, predict
from epigram.training import fitters
from epigram.training.config import ClassWeight
from epigram.training.fitters import FitOptions, Fold, FoldResults, Trained, choose_on_folds, closed_form
from epigram.training.linear.svm import fit_scale, scaled
from epigram.training.linear.svm_search import Kept, SvmFit, SvmProblem, choose, fit_margins
from epigram.training.linear.tfidf import load_blas

SEARCH_COST, SEARCH_ROWS = 16_000_000, 2_000  # tokens times classes that a search reads of train; its least texts


class SvmChoice(NamedTuple):
    """Settings that a cross-validation chose, and the scale that turns margins into logits."""

    settings: SvmSettings
    scale: float


@fitters.register("linear_svm")
def fit_model(model: LinearSvm, train: TextBatches, dev: TextBatches | None, options: FitOptions) -> Trained:
    """Fit the model on the CPU. Raises ParameterError for settings that leave no n-gram."""
    with _name_system(options.path):
        if dev is None:
            _fit_chosen(_problem(model, train, None, options), options.choice)
        else:
            fit(model, train, dev, seed=options.seed, class_weight=options.config.class_weight)
    return closed_form(model, dev, options.metric)


@fitters.register_on_folds("linear_svm")
def fit_folds(folds: Iterable[Fold]) -> FoldResults:
    """Choose the settings and one scale of the margins by the SVMs of all folds."""
    given, kept = list(folds), Kept()
    problems = [_problem(*fold.load(), fold.options) for fold in given]

    def predict(problem: SvmProblem, found: SvmFit) -> Predicted:
        margins, _ = fit_margins(problem, problem.model.fitting(found.settings), kept)
        return scaled(margins, found.scale)

    with _name_system(given[0].options.path):
        results = choose_on_folds(problems, lambda some: choose(some, kept), predict)
    return replace(results, choice=SvmChoice(results.choice.settings, results.choice.scale))


def fit(
    model: LinearSvm, train: TextBatches, dev: TextBatches, *, seed: int, class_weight: ClassWeight = "none"
) -> None:
    """Fit the weights, with the `auto` settings and the scale of the margins that have the lowest loss on dev.

    Model and texts are on the CPU. Raises ParameterError for settings that leave no n-gram.
    """
    load_blas()
    problem = SvmProblem(model, train, dev, seed=seed, class_weight=class_weight)
    rows = max(SEARCH_ROWS, len(train) * SEARCH_COST // (model.classes * int(train.lengths.sum())))
    if not model.config.automatic or len(train) <= rows:
        found = choose([problem])
        assert found.solution is not None
        problem.install(found.settings, found.solution, found.scale)
        return
    part = train.part(np.random.default_rng(seed).permutation(len(train))[:rows])
    found = choose([SvmProblem(model, part, dev, seed=seed, class_weight=class_weight)])
    problem.install(found.settings, problem.solve(found.settings), 1.0)
    model.scale.fill_(fit_scale(predict(model, dev), gold_labels(dev)))


def _problem(model: LinearSvm, train: TextBatches, dev: TextBatches | None, options: FitOptions) -> SvmProblem:
    return SvmProblem(model, train, dev, seed=options.seed, class_weight=options.config.class_weight)


def _fit_chosen(problem: SvmProblem, choice: SvmChoice) -> None:
    """Fit with the settings of a cross-validation; only orders whose keys fit the larger vocabulary are used."""
    settings = problem.model.fitting(choice.settings)
    problem.install(settings, problem.solve(settings), choice.scale)


@contextmanager
def _name_system(path: str) -> Iterator[None]:
    """Put the system's key in params.yaml in front of an error."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(f"params.yaml: {path}.{error}") from None
