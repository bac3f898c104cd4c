"""Time limit for the systems of a run: systems that are unfinished at the limit are left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from epigram.process.outcome import Outcome
from epigram.runner.prefect.stage import Runner

INTERVAL = 0.2  # seconds between two looks at the stages once the time is over


class TimeLimit:
    """Limit for the systems (or views) of a run, whose stages are given by their names: the monotonic time `until`.

    The run is stopped at that time, or later, as soon as the first system is finished, which is never left out. If all
    of them are finished, it goes on. Stages that are up to date count as `finished` from the beginning.
    """

    def __init__(
        self, until: float, systems: Mapping[str, Collection[str]], runner: Runner, finished: Collection[str] = ()
    ) -> None:
        self.until, self.systems, self.left_out = until, systems, list[str]()
        self._runner, self._finished = runner, finished

    def left_out_after(self, failed: Collection[str]) -> list[str]:
        """Return the systems to leave out: systems with a stage in `failed`, and systems out of time.

        There are none if the first system or another stage is among the failed.
        """
        out = [name for name, stages in list(self.systems.items())[1:] if not set(failed).isdisjoint(stages)]
        known = {stage for name in out for stage in self.systems[name]}
        return list(dict.fromkeys([*out, *self.left_out])) if known.issuperset(failed) else []

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Apply the limit while the context is open."""
        ended = threading.Event()
        watch = threading.Thread(target=self._wait, args=(ended,), daemon=True)
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()

    def _wait(self, ended: threading.Event) -> None:
        while not ended.wait(max(INTERVAL, self.until - time.monotonic())):
            left = unfinished(self.systems, self._runner.outcomes, self._finished)
            if not left:
                return
            if next(iter(self.systems)) not in left:
                self.left_out = left
                self._runner.stop()
                return


def unfinished(
    systems: Mapping[str, Collection[str]], outcomes: Mapping[str, Outcome], before: Collection[str] = ()
) -> list[str]:
    """Return the systems with a stage that has not finished without an error, nor `before`."""
    finished = {*before, *(name for name, outcome in list(outcomes.items()) if not outcome.code)}
    return [name for name, stages in systems.items() if not finished.issuperset(stages)]
