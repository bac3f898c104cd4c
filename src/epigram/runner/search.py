"""Search of a project: within a time, the system that is best for its data, which params.yaml gets."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, fields, replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from epigram.core.errors import ParameterError
from epigram.core.settings import dataset_of
from epigram.data.sources.source import load_source
from epigram.evaluation.comparison.formats import join_names
from epigram.fitting.progress import live
from epigram.fitting.search import Search
from epigram.fitting.steps import Steps, StepSettings
from epigram.fitting.stopwatch import Stopwatch
from epigram.fitting.systems import baseline, views
from epigram.process.display import echo
from epigram.runner.prefect.execution import CHECKS, Load, run_flow, start_server
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.settings import Settings, edited, load

RAW = Path("data/raw")  # output of the stage whose result a search reads


@dataclass(frozen=True)
class SearchChoice:
    """Sections of params.yaml: the chosen system beside the linear SVM, its baseline, and the views that they read."""

    systems: dict[str, dict[str, Any]]
    views: dict[str, dict[str, Any]]

    def write(self, params: Path) -> str:
        """Write the sections into the file `params`, and return a sentence for the user."""
        with edited(params) as values:
            values["systems"], values["views"] = self.systems, self.views
        return f"{params.name}: the systems are now {join_names(list(self.systems))}; runs and retrainings train them"


def execute_search(request: Request, seconds: float, started: float, load: Load) -> None:
    """Run the flow `search`, and write its choice into params.yaml. Raises the error that ended the flow.

    The search has so many seconds since the monotonic time `started`.
    """
    dataset = dataset_of(request.root / "params.yaml")
    if load_source(dataset, request.root / "data" / "sources").task == "tokens":
        raise ParameterError(f"--search looks for systems that label texts, but {dataset} labels words")
    api, flow = start_server(load, CHECKS, check=lambda: overrides.check(request))
    choice: SearchChoice = run_flow(api, lambda: flow(request, seconds, started, return_state=True))
    echo(choice.write(request.root / "params.yaml"), file=sys.stderr)


def find_choice(folder: Path, watch: Stopwatch) -> SearchChoice:
    """Search on the downloaded data of the project in `folder`, with its settings, and print what is tried."""

    def say(line: str) -> None:
        echo(line, file=sys.stderr)

    with TemporaryDirectory(prefix="epigram-search-") as place:
        steps = Steps(Path(place), step_settings(load(folder / "params.yaml")))
        (steps.folder / "raw").symlink_to(folder / RAW, target_is_directory=True)
        search = Search(steps, watch, say)
        with redirect_stdout(StringIO()), live(search, shown=True):
            search.run()
        best = search.systems[search.choice()]
    say(f"{best.name} is chosen of {len(search.systems)} systems by held-out texts")
    chosen = {each.name: each for each in (best, search.systems.get(baseline().name, baseline()))}
    used = {each.system.view for each in chosen.values()}
    return SearchChoice(
        systems={name: each.settings for name, each in chosen.items()},
        views={name: view for name, view in views(search.facts).items() if name in used},
    )


def step_settings(settings: Settings) -> StepSettings:
    """Return the project's settings of the steps; no candidate reads parts of speech, and one seed decides."""
    given = {each.name: getattr(settings, each.name) for each in fields(StepSettings)}
    own = StepSettings()
    changed = StepSettings(**given)
    return replace(changed, seeds=settings.seeds[:1], pos_table=own.pos_table, evaluate=own.evaluate)
