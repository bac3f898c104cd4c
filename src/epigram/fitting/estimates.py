"""Estimated times of the candidates for the texts of a search, by the measured speed of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from epigram.checkpoints.folders import installed_encoder
from epigram.core.files import read_json
from epigram.evaluation.metrics.primary import OF_ORDER
from epigram.evaluation.settings import name_of
from epigram.fitting.costs import (
    Pace,
    examined_rows,
    frozen_seconds,
    lengthened,
    linear_seconds,
    pairs_seconds,
    shortest_seconds,
    training_seconds,
)
from epigram.fitting.steps import Steps
from epigram.fitting.systems import ENCODED, TRIED_ROWS, Candidate, Facts, fastest, fine_tuned, frozen, views
from epigram.text.dataset.encoded_dataset import View
from epigram.text.dataset.validated_corpus import SPLITS, ValidatedCorpus
from epigram.text.settings import ViewSettings
from epigram.training.trials.trial import HELD_OUT, TrialResult, try_system

FEW_TEXTS = 2_000  # training texts up to which the first system is trained without an estimate
PROBED = 64  # texts of a trial that measures the time
RUNGS = (500, 2_000, 8_000)  # rows of the trials of a learning rate
TRIALS_SHARE = 0.4  # share of the remaining time that such trials may take


@dataclass
class Estimates:
    """Estimates for the validated texts of `steps`; `left` returns the seconds that are left for trainings.

    A view is encoded, and the speed on it measured, when the first candidate that reads it is considered.
    """

    steps: Steps
    left: Callable[[], float]
    _trials: dict[str, TrialResult] = field(default_factory=dict)
    _text: float | None = None  # seconds in which the encoder predicts a text

    def fitting(self, candidate: Candidate) -> Candidate | None:
        """Return the candidate as it fits into the time that is left, None if it does not fit.

        The first one by experience fits without an estimate where the texts are few and its encoder stays as it is: it
        is the answer in hand.
        """
        first = self._text is None and not self._trials
        if first and candidate.is_frozen and self.facts.train <= FEW_TEXTS:
            return candidate
        if candidate.by_gradient:
            return self._lengthened(candidate)
        return candidate if self.seconds(candidate) <= self.left() else None

    def seconds(self, candidate: Candidate) -> float:
        """Return the estimated seconds of a candidate; of a training by gradient, with the fewest epochs."""
        if candidate.by_gradient:
            return shortest_seconds(candidate, self._pace(candidate), self.facts)
        if candidate.name == "tfidf_svm":
            return linear_seconds(self._linear, self.facts)
        if candidate.name == "setfit":
            return pairs_seconds(candidate, self.text, self.facts)
        return frozen_seconds(candidate.name, self.text, self.facts)

    def _lengthened(self, candidate: Candidate) -> Candidate | None:
        """Return a training by gradient with as many epochs as fit; trials choose the learning rate of many texts."""
        pace = self._pace(candidate)
        found = lengthened(candidate, pace, self.facts, self.left())
        if found is None or candidate.name != "fine_tuned" or not self.facts.test:
            return found
        rates = fine_tuned(self.facts)
        rungs = self._rungs(rates, pace)
        best = halved(rates, rungs, self._try) if rungs else candidate
        return lengthened(best.renamed(candidate.name), pace, self.facts, self.left())

    def _rungs(self, variants: Sequence[Candidate], pace: Pace) -> list[int]:
        """Return the rows of the trials that fit into their share of the time; none if the texts are few."""
        if self.facts.train <= TRIED_ROWS:
            return []
        rungs, seconds, left = list[int](), 0.0, list(variants)
        for rows in (each for each in RUNGS if each < self.facts.fitted):
            seconds += sum(self._trial_seconds(each, pace, rows) for each in left)
            if len(left) < 2 or seconds > TRIALS_SHARE * self.left():
                break
            rungs.append(rows)
            left = left[: better_half(len(left))]
        return rungs

    def _trial_seconds(self, candidate: Candidate, pace: Pace, rows: int) -> float:
        trainings = min(2, self.facts.folds) or 1
        held_out = min(self.facts.train - self.facts.fitted if self.facts.folds else self.facts.dev, HELD_OUT)
        return training_seconds(candidate, pace, rows, trainings=trainings, held_out=trainings * held_out)

    def learn(self, candidate: Candidate) -> None:
        """Note the speed of the encoder that the evaluation of a trained candidate has measured."""
        if candidate.system.view == ENCODED:
            self._text = 1 / float(
                read_json(self.steps.folder / "speed" / f"{candidate.name}.json")["texts_per_second"]
            )

    def examined(self, seconds: float) -> int:
        """Return how many training texts can be examined in `seconds`."""
        most = min(self.facts.train, self.steps.settings.examine.rows)
        return most if most <= FEW_TEXTS else examined_rows(seconds, self._linear, most)

    def encode(self, view: str) -> None:
        """Encode a view, unless it is encoded."""
        if not (self.steps.folder / "encoded" / view).exists():
            self.steps.encode(view, ViewSettings(**views(self.facts)[view]))

    @property
    def text(self) -> float:
        """Seconds in which the encoder predicts a text: of the last system on it, or of a trial."""
        if self._text is None:
            self._text = self._probe(frozen("embedding_linear")).ms_per_text / 1000
        return self._text

    @property
    def _linear(self) -> TrialResult:
        return self._probe(fastest())

    def _pace(self, candidate: Candidate) -> Pace:
        """Return the pace of a training by gradient: by the speed of the encoder, or by a trial without one."""
        if candidate.system.view == ENCODED:
            return Pace.of_encoder(self.text)
        return Pace.of_trial(candidate, self._probe(candidate))

    def _probe(self, candidate: Candidate) -> TrialResult:
        """Return the result of a candidate on few texts, which measures the time."""
        if candidate.name not in self._trials:
            self._trials[candidate.name] = self._run(candidate, rows=PROBED, held_out=PROBED, folds=1)
        return self._trials[candidate.name]

    def _try(self, candidate: Candidate, rows: int) -> TrialResult:
        return self._run(candidate, rows=rows)

    def _run(self, candidate: Candidate, **amounts: int) -> TrialResult:
        """Return the result of a trial."""
        view, steps = candidate.system.view, self.steps
        self.encode(view)
        encoded, pretrained = (steps.folder / each / view for each in ("encoded", "pretrained"))
        name, shared, metric = candidate.recipe, steps.settings.train, steps.settings.metric
        return try_system(name, candidate.system, shared, metric, View.load(encoded), pretrained, **amounts)

    @cached_property
    def facts(self) -> Facts:
        """What the candidates depend on."""
        corpus = ValidatedCorpus.read(self.steps.folder / "validated")
        train, dev, test = (corpus.rows.get(name, 0) for name in SPLITS)
        return Facts(
            language=corpus.language,
            train=train,
            dev=dev,
            test=test,
            folds=corpus.folds,
            checkpoint=installed_encoder(corpus.language),
            classes=len(corpus.labels),
            shared=self.steps.settings.train,
            in_order=name_of(self.steps.settings.metric) in OF_ORDER,
        )


def halved(
    variants: Sequence[Candidate], rungs: Sequence[int], trial: Callable[[Candidate, int], TrialResult]
) -> Candidate:
    """Return the best variant by successive halving (Jamieson and Talwalkar, 2016).

    On each rung, `trial` tries what is left on so many rows, and the better half stays. A tie goes to the lower loss.
    """
    left = list(variants)
    for rows in rungs:
        found = {each.name: trial(each, rows) for each in left}
        left.sort(key=lambda each: (-found[each.name].score, found[each.name].loss))
        left = left[: better_half(len(left))]
    return left[0]


def better_half(count: int) -> int:
    """Return how many of so many variants stay; of an odd number, the middle one does not."""
    return max(1, count // 2)
