"""Grid of runs: the combinations of settings, one command per run, and the results."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from epigram.core.display import printable
from epigram.core.errors import EpigramError, ParameterError, TryAgainError
from epigram.core.files import read_json
from epigram.runner import child_process
from epigram.runner.workspace.request import Request

if TYPE_CHECKING:
    from rich.table import Table

LARGEST = 1_000  # runs
RUNS = child_process.Pack()  # runs of this process, which may be a remote worker


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

    def told(self) -> str:
        """Return the run's chosen system with its scores on the development and test sets, as one line."""
        from epigram.evaluation.formats import SCORE_NAMES, percent, score_with_interval

        of = f"{SCORE_NAMES[self.score]} {percent(self.dev)} on dev, {score_with_interval(*self.test)} on test"
        return f"{self.run}, {self.dataset}: {self.system}: {of}"


def trials(base: Request, grid: Mapping[str, Sequence[Any]], name: str) -> list[Trial]:
    """Return a trial for every combination. Raises ParameterError if there are more than LARGEST."""
    combinations = list(product(*grid.values()))
    if len(combinations) > LARGEST:
        raise ParameterError(f"--over asks for {len(combinations):,} runs: {LARGEST:,} are allowed")
    digits = len(str(len(combinations)))
    return [
        _trial(base, dict(zip(grid, combination, strict=True)), f"{name}-{number:0{digits}}")
        for number, combination in enumerate(combinations, start=1)
    ]


def _trial(base: Request, values: dict[str, Any], name: str) -> Trial:
    changes = {**base.changes, **{key: value for key, value in values.items() if key != "dataset"}}
    dataset = str(values["dataset"]) if "dataset" in values else base.dataset
    return Trial(replace(base, dataset=dataset, changes=changes, name=name), values)


@task(name="run", task_run_name="{trial.request.name}", cache_policy=NO_CACHE, persist_result=False)
def run(trial: Trial) -> State[Any]:
    """Run the pipeline in a child process, one stage at a time; the state's data is the Result."""
    result = _result(trial, *_executed(trial.request))
    if result.code:
        return Failed(message=result.message, data=result)
    return Completed(message=f"{result.system}: {100 * (result.dev or 0.0):.1f} on dev", data=result)


def _executed(request: Request) -> tuple[int, str]:
    """Run the request; return its exit code and the first error line that it printed."""
    log, error = get_run_logger(), ""
    command = [sys.executable, "-m", "flows.pipeline", *_arguments(request)]
    options = {"cwd": request.root, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    child = RUNS.start(lambda: child_process.start(command, **options))
    if child is None:
        return TryAgainError.code, "the sweep was stopped"
    with child:
        for line in child.stdout or ():
            log.info("%s", line.rstrip())
            error = error or (line.strip() if line.startswith("error: ") else "")
    RUNS.ended(child)
    return child.returncode, error


def _arguments(request: Request) -> list[str]:
    """Return the request as command-line options of `flows.pipeline`."""
    options = {
        "name": request.name,
        "dataset": request.dataset,
        "systems": ",".join(request.systems),
        "seeds": ",".join(map(str, request.seeds)),
        "max-parallel": request.max_parallel,
    }
    given = [f"--{name}={value}" for name, value in options.items() if value]
    return given + [f"--set={key}={json.dumps(value, default=str)}" for key, value in request.changes.items()]


def _result(trial: Trial, code: int, error: str) -> Result:
    name = str(trial.request.name)
    if code:
        return Result(
            run=name, values=trial.values, code=code, message=error.removeprefix("error: ") or f"exit code {code}"
        )
    said = read_json(trial.request.root / "runs" / name / "summary.json")
    if "chosen_system" not in said:
        raise EpigramError(f"run {name} compared nothing")
    row = next(row for row in said["systems"] if row["system"] == said["chosen_system"])
    return Result(
        run=name,
        values=trial.values,
        dataset=said["dataset"],
        score=said["score"],
        system=row["system"],
        dev=row["dev_score"],
        test=(row["test_score"], row["test_low"], row["test_high"]),
    )


def taken_over(trial: Trial, state: State[Any]) -> Result:
    """Return the result that a task ended with; if the task crashed, a result with the reason."""
    result = state.result(raise_on_failure=False)
    if isinstance(result, Result):
        return result
    why = state.message or "the task broke"
    return Result(run=str(trial.request.name), values=trial.values, code=EpigramError.code, message=why)


def ranked(results: Sequence[Result]) -> list[Result]:
    """Sort the results by data set, best development score first; failed runs are last."""
    return sorted(results, key=lambda result: (bool(result.code), result.dataset, -(result.dev or 0.0)))


def best(results: Sequence[Result]) -> list[Result]:
    """Return the best result on the development set for each data set; only their test scores are shown."""
    found: dict[str, Result] = {}
    for result in ranked(results):
        if not result.code:
            found.setdefault(result.dataset, result)
    return list(found.values())


def cells(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the table of runs."""
    from epigram.evaluation.formats import percent

    keys = list(results[0].values)
    rows = [
        [result.run, *(str(result.values[key]) for key in keys), result.system, percent(result.dev)]
        for result in ranked(results)
    ]
    return ["run", *keys, "system", "dev"], rows


def table(results: Sequence[Result]) -> Table:
    """Return the table of runs for the terminal, with the best ones on the development set highlighted."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    heads, rows = cells(results)
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for head in heads:
        shown.add_column(Text(printable(head)))
    chosen = {result.run for result in best(results)}
    for row in rows:
        shown.add_row(*(Text(printable(cell)) for cell in row), style="bold green" if row[0] in chosen else "")
    return shown
