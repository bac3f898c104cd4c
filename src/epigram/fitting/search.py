"""Search for the best system within a time budget: one training after another, the best one by experience first."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

from epigram.core import deadline
from epigram.core.errors import EpigramError
from epigram.evaluation.comparison.choose_system import decide
from epigram.evaluation.comparison.formats import score_text
from epigram.evaluation.comparison.scored_system import scored_system
from epigram.evaluation.metrics.primary import title_of
from epigram.evaluation.records.results import Metrics, read_evaluation
from epigram.fitting.estimates import Estimates
from epigram.fitting.steps import Steps
from epigram.fitting.stopwatch import Stopwatch
from epigram.fitting.systems import Candidate, baseline, expected, fastest, missing_encoder, ordered

END_SHARE, END_SECONDS = 0.08, 2.0  # share of the budget, and minimum time, of what follows the trainings


@dataclass
class Search:
    """Trainings of the candidates, as long as the time allows; `say` prints a line.

    `systems` are the trained candidates, `metrics` their scores on held-out texts, and `left_out` has the reason why
    another one was not trained. `trying` is the name of the candidate that is trained.
    """

    steps: Steps
    watch: Stopwatch
    say: Callable[[str], None]
    systems: dict[str, Candidate] = field(default_factory=dict)
    metrics: dict[str, Metrics] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    trying: str = ""
    examined: int = 0  # training texts that the report examines

    def run(self) -> None:
        """Train every candidate that fits into the time, in the order of experience.

        The first one is trained to its end, and a later one is stopped when the time is over. If none fits, the fastest
        one is trained, past the time. A candidate that fails is left out; raises the error of the fastest one if it
        fails and no other one is trained.
        """
        self.steps.validate()
        for note in self.steps.left_out_rows():
            self.say(f"note: {note}")
        estimates, errors = Estimates(self.steps, lambda: self.left), dict[str, EpigramError]()
        self.facts = estimates.facts
        if hint := missing_encoder(self.facts):
            self.say(hint)
        for candidate in ordered(self.facts):
            try:
                self._consider(candidate, estimates)
            except deadline.TimeIsOverError:
                self._leave_out(candidate, "it was stopped when the time was over")
            except EpigramError as error:
                errors[candidate.name] = error
                self._leave_out(candidate, f"it failed: {error}")
        if not self.systems:
            last = fastest()
            if last.name in errors:
                raise errors[last.name]
            self.left_out.pop(last.name, None)
            self.say(f"{last.name}: trained with given settings, past the time, because no other system is trained")
            self._train(last, estimates)
        self.trying, self.examined = "", estimates.examined(self._end / 2)

    @property
    def left(self) -> float:
        """Seconds that are left for trainings."""
        return max(0.0, self.watch.left - self._end)

    @property
    def best(self) -> str:
        """Name of the system with the highest score on held-out texts; of equal ones, the first by experience."""
        return max(self.metrics, key=lambda name: self.metrics[name].dev_score.value, default="")

    def choice(self) -> str:
        """Return the name of the trained system that a comparison chooses; no ensemble is among them."""
        found = [scored_system(read_evaluation(self.steps.folder / "evaluated" / name)) for name in self.systems]
        decision = decide(found, self.steps.settings.compare.alpha, "best", expected(self.facts))
        return decision.ranked[decision.place].metrics.system

    def _consider(self, candidate: Candidate, estimates: Estimates) -> None:
        """Train a candidate if it is estimated to fit into the time that is left."""
        self.trying = candidate.name
        limited = deadline.ends_at(time.monotonic() + self.left) if self.systems else nullcontext()
        with limited:
            if fitting := estimates.fitting(candidate):
                self._train(fitting, estimates)
            else:
                what = "the search for its settings" if candidate == baseline() else "it"
                needed = f"{what} needs about {estimates.seconds(candidate):,.0f} s"
                self._leave_out(candidate, f"{needed}, and {self.left:.0f} s are left")

    def _train(self, candidate: Candidate, estimates: Estimates) -> None:
        name, started = candidate.name, self.watch.now()
        estimates.encode(candidate.system.view)
        metrics = self.steps.train(name, candidate.system)
        self.systems[name], self.metrics[name] = candidate, metrics
        estimates.learn(candidate)
        score = f"{title_of(metrics.score)} {score_text(metrics.score, metrics.dev_score.value)} on held-out texts"
        self.say(f"{name}: {score}, {self.watch.now() - started:.1f} s; {max(0.0, self.watch.left):.0f} s left")

    def _leave_out(self, candidate: Candidate, reason: str) -> None:
        self.left_out[candidate.name] = reason
        self.say(f"{candidate.name}: {reason}")

    @property
    def _end(self) -> float:
        """Seconds that the comparison and the report take at most."""
        return max(END_SECONDS, END_SHARE * self.watch.budget)
