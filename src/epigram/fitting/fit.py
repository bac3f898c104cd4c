"""Training from Python: the best model of a table of texts that a time budget allows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

from epigram.core.errors import EpigramError, ParameterError
from epigram.fitting.candidates import Prospects
from epigram.fitting.fitted_model import PREFIX, FittedModel
from epigram.fitting.inputs import Language, write_raw
from epigram.fitting.record import write_record
from epigram.fitting.steps import Steps, StepSettings
from epigram.process.display import echo
from epigram.workflow.search.candidates import Candidate, linear
from epigram.workflow.search.goal import Quality, Stopwatch, parse_goal

Effort = Literal["fast", "good"]  # fast: no training by gradient
LOG = "fit.log"  # what the steps print
END_SHARE, END_SECONDS = 0.08, 2.0  # share of the budget, and minimum time, of the comparison and the report


def fit(
    data: Any,
    labels: Iterable[Any] | None = None,
    *,
    text: str = "text",
    label: str = "label",
    budget: str = "1m",
    quality: Effort = "good",
    language: Language | None = None,
    options: Mapping[str, str] | None = None,
    verbose: bool = True,
) -> FittedModel:
    """Train classifiers on labelled texts, and return the best one on held-out texts.

    `data` is texts with `labels` (one each, or a list of them each), a frame or a file with the columns `text` and
    `label`, or a folder with a folder of texts for each label. `options` say how a file is read where this is not
    detected: encoding, separator, sheet. A column named split, or with the names of splits, gives the splits; without
    one they are drawn. The `budget` (90s, 20m, 1h) is the time until the model is returned, if no training takes longer
    than its estimate. The first system is the best one by experience that fits into the time; what is left of the time
    goes to others. Raises ParameterError for arguments that do not fit together, DataError for faults of the texts.
    """
    if quality not in get_args(Effort):
        raise ParameterError(f"quality is {quality!r}; expected {' or '.join(get_args(Effort))}")
    goal = parse_goal(budget, quality)
    watch = Stopwatch(goal.seconds, time.monotonic())
    place = TemporaryDirectory(prefix=PREFIX)
    steps = Steps(Path(place.name), StepSettings())
    with (steps.folder / LOG).open("w", encoding="utf-8") as log:
        say = _printer(verbose, log)
        columns = {"text": text, "label": label}
        raw = steps.folder / "raw"
        for note in write_raw(data, labels, **columns, language=language, folder=raw, options=dict(options or {})):
            say(f"note: {note}")
        with redirect_stdout(log):
            search = Search(steps, watch, quality, say)
            search.run()
            summary = steps.compare(list(search.systems))
        say(summary.verdict)
    settings = {name: candidate.settings for name, candidate in search.systems.items()}
    write_record(steps, settings, summary.chosen_system)
    return FittedModel(place, steps, summary, settings, search.left_out)


def _printer(verbose: bool, log: Any) -> Callable[[str], None]:
    """Return a function that prints a line to stderr if `verbose`, and to the log."""

    def say(line: str) -> None:
        if verbose:
            echo(line, file=sys.stderr)
        echo(line, file=log)

    return say


@dataclass
class Search:
    """Trainings of one candidate after another, as long as the time allows.

    `systems` are the trained candidates, and `left_out` has the reason why another one was not trained.
    """

    steps: Steps
    watch: Stopwatch
    quality: Quality
    say: Callable[[str], None]
    systems: dict[str, Candidate] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Train every candidate that fits into the time, in the order of experience.

        If none does, the fastest one is trained, past the time. A candidate that fails is left out; raises the error of
        the fastest one if it fails and no other one is trained.
        """
        self.steps.validate()
        prospects, errors = Prospects(self.steps, self.quality), dict[str, EpigramError]()
        for candidate in prospects.ordered():
            try:
                self._consider(candidate, prospects)
            except EpigramError as error:
                errors[candidate.name] = error
                self._leave_out(candidate, f"it failed: {error}")
        if not self.systems:
            fastest = linear(prospects.facts)[-1]
            if fastest.name in errors:
                raise errors[fastest.name]
            self.left_out.pop(fastest.name, None)
            self._train(fastest, prospects)

    def _consider(self, candidate: Candidate, prospects: Prospects) -> None:
        """Train a candidate if it is estimated to fit into the time that is left."""
        left = self.watch.left - self._end
        if fitting := prospects.fitting(candidate, left):
            self._train(fitting, prospects)
        else:
            self._leave_out(candidate, f"it does not fit into the {max(left, 0.0):.0f} s that are left")

    def _train(self, candidate: Candidate, prospects: Prospects) -> None:
        name, started = candidate.name, self.watch.now()
        prospects.encode(candidate.system.view)
        metrics = self.steps.train(name, candidate.system)
        self.systems[name] = candidate
        prospects.learn(candidate)
        score = f"{metrics.score} {100 * metrics.dev_score.value:.1f} on held-out texts"
        self.say(f"{name}: {score}, {self.watch.now() - started:.1f} s; {max(0.0, self.watch.left):.0f} s left")

    def _leave_out(self, candidate: Candidate, reason: str) -> None:
        self.left_out[candidate.name] = reason
        self.say(f"{candidate.name}: not trained: {reason}")

    @property
    def _end(self) -> float:
        """Seconds that the comparison and the report take at most."""
        return max(END_SECONDS, END_SHARE * self.watch.budget)
