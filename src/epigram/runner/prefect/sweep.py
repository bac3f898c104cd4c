"""Grid of runs: the combinations of settings, one command per run, and the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from prefect import get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from epigram.core.errors import EpigramError, ParameterError, TryAgainError
from epigram.core.files import read_json
from epigram.process.outcome import OUTCOME_FILE, read_outcome
from epigram.process.signals import interrupt_waits
from epigram.runner import child_process
from epigram.runner.runs import run_page
from epigram.runner.scheduling.slots import acquire_gpus
from epigram.runner.workspace.request import Request

if TYPE_CHECKING:
    from epigram.report.table import Table

MAX_RUNS = 1_000  # runs
CHILD_RUNS = child_process.ProcessPool()  # runs of this process, which may be a remote worker


@dataclass(frozen=True)
class Trial:
    """One run of a sweep: its request, and its values of the varied keys."""

    request: Request
    values: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of a trial: the chosen system with its scores, or the exit code and the error message."""

    run: str
    values: dict[str, Any]
    dataset: str = ""
    code: int = 0
    message: str = ""
    score: str = ""
    system: str = ""
    dev: float | None = None
    test: tuple[float, float, float] = (0.0, 0.0, 0.0)  # score, then its interval

    def describe(self) -> str:
        """Return the run's chosen system with its scores on the development and test sets, as one line."""
        from epigram.evaluation.comparison.formats import score_text, score_with_interval
        from epigram.evaluation.metrics.primary import title_of

        dev, test = score_text(self.score, self.dev), score_with_interval(self.score, *self.test)
        return f"{self.run}, {self.dataset}: {self.system}: {title_of(self.score)} {dev} on dev, {test} on test"


def make_trials(base: Request, grid: Mapping[str, Sequence[Any]], name: str) -> list[Trial]:
    """Return a trial for every combination. Raises ParameterError if there are more than MAX_RUNS."""
    combinations = list(product(*grid.values()))
    if len(combinations) > MAX_RUNS:
        raise ParameterError(f"--over requests {len(combinations):,} runs; at most {MAX_RUNS:,} are allowed")
    digits, trials = len(str(len(combinations))), []
    for number, combination in enumerate(combinations, start=1):
        values = dict(zip(grid, combination, strict=True))
        changes = {**base.changes, **{key: value for key, value in values.items() if key != "dataset"}}
        dataset = str(values["dataset"]) if "dataset" in values else base.dataset
        request = replace(base, dataset=dataset, changes=changes, name=f"{name}-{number:0{digits}}")
        trials.append(Trial(request, values))
    return trials


def run_trial(trial: Trial) -> State[Any]:
    """Run the pipeline in a child process, one stage at a time; the state's data is the Result."""
    with TemporaryDirectory(prefix="epigram-") as folder:
        file = Path(folder, "outcome.json")
        code, outcome = _run_command(trial.request, file), read_outcome(file)
    if code is None:
        result = _read_result(trial, TryAgainError.code, "the sweep was stopped")
    else:
        result = _read_result(trial, code, outcome.summary if outcome else "")
    if result.code:
        return Failed(message=result.message, data=result)
    return Completed(message=f"{result.system}: {_dev(result)} on dev", data=result)


@contextmanager
def stop_on_exit() -> Iterator[None]:
    """Terminate the runs of this process at the end of the context: they end with the sweep, however it ends."""
    interrupt_waits()  # the checks of the trials may have imported Polars
    try:
        yield
    finally:
        CHILD_RUNS.stop()


def _run_command(request: Request, outcome_file: Path) -> int | None:
    """Run the request as a command; return its exit code, or None if the sweep was stopped before it could start."""
    log = get_run_logger()
    command = [sys.executable, "-m", "epigram.cli", "run", *_arguments(request)]
    with acquire_gpus(str(request.name)) as gpus:
        environment = {**os.environ, **gpus, OUTCOME_FILE: str(outcome_file)}
        options = {"cwd": request.root, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        child = CHILD_RUNS.start(lambda: child_process.start(command, **options))
        if child is None:
            return None
        with child:
            for line in child.stdout or ():
                log.info("%s", line.rstrip())
        CHILD_RUNS.discard(child)
    return child.returncode


def _arguments(request: Request) -> list[str]:
    """Return the request as options of `epigram run`."""
    options = {
        "name": request.name,
        "dataset": request.dataset,
        "systems": ",".join(request.systems),
        "seeds": ",".join(map(str, request.seeds)),
        "max-parallel": request.max_parallel,
    }
    arguments = [f"--{name}={value}" for name, value in options.items() if value]
    return arguments + [f"--set={key}={json.dumps(value, default=str)}" for key, value in request.changes.items()]


def _read_result(trial: Trial, code: int, error: str) -> Result:
    name = str(trial.request.name)
    if code:
        return Result(run=name, values=trial.values, code=code, message=error or f"exit code {code}")
    summary = read_json(trial.request.root / "runs" / name / "summary.json")
    if "chosen_system" not in summary:
        raise EpigramError(f"run {name} has no comparison in its summary.json")
    row = next(row for row in summary["systems"] if row["system"] == summary["chosen_system"])
    return Result(
        run=name,
        values=trial.values,
        dataset=summary["dataset"],
        score=summary["score"],
        system=row["system"],
        dev=row["dev_score"],
        test=(row["test_score"], row["test_low"], row["test_high"]),
    )


def _dev(result: Result) -> str:
    """Return the development score as reports show it; a failed run has none."""
    from epigram.evaluation.comparison.formats import score_text

    return score_text(result.score, result.dev)


def result_of(trial: Trial, state: State[Any]) -> Result:
    """Return the result that a task ended with; if the task crashed, a result with the reason."""
    result = state.result(raise_on_failure=False)
    if isinstance(result, Result):
        return result
    message = state.message or "the task failed without a message"
    return Result(run=str(trial.request.name), values=trial.values, code=EpigramError.code, message=message)


def sort_results(results: Sequence[Result]) -> list[Result]:
    """Sort the results by data set, best development score first; failed runs are last."""
    return sorted(results, key=lambda result: (bool(result.code), result.dataset, -(result.dev or 0.0)))


def best_per_dataset(results: Sequence[Result]) -> list[Result]:
    """Return the best result on the development set for each data set; only their test scores are shown."""
    found: dict[str, Result] = {}
    for result in sort_results(results):
        if not result.code:
            found.setdefault(result.dataset, result)
    return list(found.values())


def create_artifact(results: Sequence[Result]) -> None:
    """Create the table of runs as an artifact of the dashboard."""
    verdicts = [each.describe() for each in best_per_dataset(results)]
    create_markdown_artifact(run_page.sweep(results_table(results), verdicts), key="sweep")


def results_table(results: Sequence[Result]) -> Table:
    """Return the table of runs with the best ones on the development set highlighted."""
    from epigram.report.table import Cell, Heading, Line, Table

    keys = list(results[0].values)
    best = {result.run for result in best_per_dataset(results)}
    headings = [Heading(text=name, kind="text") for name in ("run", *keys, "system")]
    lines = [
        Line(
            [
                Cell(result.run),
                *(Cell(str(result.values[key])) for key in keys),
                Cell(result.system),
                Cell(_dev(result)),
            ],
            highlighted=result.run in best,
        )
        for result in sort_results(results)
    ]
    return Table([*headings, Heading(text="dev", kind="number")], lines)
