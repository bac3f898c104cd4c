"""Choice of the settings of a linear SVM that are `auto`, by the log loss on held-out texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.models.batches import TextBatches
from epigram.models.linear_svm import LinearSvm, SvmSettings
from epigram.models.predict import Predicted, gold_labels
from epigram.nn.layers.ngrams import max_n
from epigram.training.config import ClassWeight
from epigram.training.fitters import pool
from epigram.training.linear.svm import Solution, SvmOptions, fit_scale, fit_svms, scaled
from epigram.training.linear.tfidf import feature_matrix, fit_features, load_blas

PENALTIES = [0.1, 0.3, 1.0, 3.0, 10.0]  # C of liblinear
CHARACTERS = (2, 3, 4, 5)  # lengths of n-grams of characters
LEAST_GAIN = 0.005  # share of the loss that a change of a setting has to gain; less is chance (docs/development/log.md)


@dataclass(frozen=True)
class SvmFit:
    """Settings with their loss, scale and margins on the held-out texts.

    `solution` is the fit itself if there is only one problem.
    """

    settings: SvmSettings
    loss: float
    scale: float
    margins: list[Predicted]
    solution: Solution | None


class SvmProblem:
    """Linear SVMs on the TF-IDF of the texts `train`, judged on the texts `held_out` if there are any.

    Model and texts are on the CPU.
    """

    def __init__(
        self,
        model: LinearSvm,
        train: TextBatches,
        held_out: TextBatches | None,
        *,
        seed: int,
        class_weight: ClassWeight,
    ) -> None:
        load_blas()
        self.model, self.train, self.held_out, self.config = model, train, held_out, model.config
        self.seed, self.class_weight = seed, class_weight
        self._matrices: tuple[Any, Any] = None, None
        self._read: tuple[Any, ...] | None = None  # the settings that the matrices depend on

    @property
    def wanted(self) -> NDArray[np.integer]:
        """The labels of the held-out texts."""
        assert self.held_out is not None
        return gold_labels(self.held_out)

    def solve(self, settings: SvmSettings) -> Solution:
        """Return weights (F, C) and biases (C,). Raises ParameterError for settings that leave no n-gram."""
        x, _ = self._features(settings)
        options = SvmOptions(settings.penalty, self.seed, self.class_weight, settings.weighting)
        return fit_svms(x, gold_labels(self.train), self.model.classes, options)

    def margins(self, settings: SvmSettings, solution: Solution) -> Predicted:
        """Return the margins of the held-out texts."""
        weight, bias = solution
        _, x = self._features(settings)
        return Predicted(np.asarray(x @ weight + bias, dtype=np.float32), None, self.model.multi)

    def install(self, settings: SvmSettings, solution: Solution, scale: float) -> None:
        """Set the model's settings and weights."""
        self._features(settings)
        weight, bias = map(torch.from_numpy, solution)
        self.model.use(self.config.fixed(settings))
        self.model.install(self.model.keys, self.model.idf, weight, bias, scale)

    def _features(self, settings: SvmSettings) -> tuple[Any, Any]:
        """Return the matrices of `train` and of the held-out texts; both are kept for the last settings."""
        wanted = settings.orders, settings.characters, settings.sublinear
        if self._read != wanted:
            self.model.use(self.config.fixed(settings))
            x = fit_features(self.model, self.train)
            held_out = None if self.held_out is None else feature_matrix(self.model, self.held_out)
            self._read, self._matrices = wanted, (x, held_out)
        return self._matrices


Kept = dict[tuple[SvmProblem, SvmSettings], Predicted]  # margins of the held-out texts


def choose(problems: Sequence[SvmProblem], kept: Kept | None = None) -> SvmFit:
    """Return the settings with the lowest loss on the held-out texts of all `problems` together.

    The search changes one setting at a time, to a neighbouring value, as long as the loss falls clearly. If there is a
    dictionary `kept`, margins are stored in it, and found again.
    """
    search, before = _Search(problems, kept), None
    while before != search.best.settings:
        before = search.best.settings
        for name in search.values:
            search.climb(name)
    return search.best


def fit_margins(
    problem: SvmProblem, settings: SvmSettings, kept: Kept | None = None
) -> tuple[Predicted, Solution | None]:
    """Return the margins of the held-out texts, and the fit if they are not `kept`."""
    key = problem, settings
    if kept is not None and key in kept:
        return kept[key], None
    solution = problem.solve(settings)
    margins = problem.margins(settings, solution)
    if kept is not None:
        kept[key] = margins
    return margins, solution


class _Search:
    """Search for the lowest loss; no settings are fitted twice."""

    def __init__(self, problems: Sequence[SvmProblem], kept: Kept | None) -> None:
        self.problems, self.kept, config = problems, kept, problems[0].config
        self.wanted = np.concatenate([each.wanted for each in problems])
        longest = min(max_n(each.model.vocabulary) for each in problems)
        alphabets = [each.model.alphabet for each in problems]
        spelled = [CHARACTERS] if all(size and max_n(size) >= CHARACTERS[-1] for size in alphabets) else []
        values: dict[str, list[Any]] = {
            "characters": [(), *spelled],
            "weighting": ["tfidf", "naive_bayes"],
            "penalty": PENALTIES,
            "orders": [tuple(range(1, n + 1)) for n in range(1, longest + 1)],
            "sublinear": [True, False],
        }
        self.values = {name: options for name, options in values.items() if name in config.automatic}
        self.tried: set[SvmSettings] = set()
        self.best = self._fit(config.first)

    def climb(self, name: str) -> None:
        """Change one setting of the best candidate to the next value, up and down, as long as the loss falls."""
        values = self.values[name]
        for step in (1, -1):
            place = values.index(getattr(self.best.settings, name)) + step
            while 0 <= place < len(values) and self._improves(self.best.settings._replace(**{name: values[place]})):
                place += step

    def _improves(self, settings: SvmSettings) -> bool:
        """Fit with `settings`, unless they have been tried, and return whether they are the new best candidate."""
        if settings in self.tried:
            return False
        found = self._fit(settings)
        if found.loss > (1 - LEAST_GAIN) * self.best.loss:
            return False
        self.best = found
        return True

    def _fit(self, settings: SvmSettings) -> SvmFit:
        self.tried.add(settings)
        first, *rest = self.problems
        found, solution = fit_margins(first, settings, self.kept)
        if rest:
            solution = None  # frees its memory before the next fit
        margins = [found, *(fit_margins(each, settings, self.kept)[0] for each in rest)]
        scale = fit_scale(pool(margins), self.wanted)
        loss = scaled(pool(margins), scale).loss(self.wanted)
        return SvmFit(settings, loss, scale, margins, solution)
