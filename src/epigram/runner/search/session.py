"""A search in progress: its workspace, the stages that encode the texts, and its trials."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from epigram.checkpoints.folders import installed_encoder
from epigram.core.config_types import validate_as
from epigram.core.errors import EpigramError, ParameterError
from epigram.core.settings import read_params
from epigram.data.sources.source import load_source
from epigram.models.settings import System
from epigram.process.display import echo
from epigram.runner.prefect.pipeline_run import PipelineRun, RunFailedError, open_run
from epigram.runner.search.kept_plan import FILE, keep, read_kept, search_key
from epigram.runner.search.plan_threads import with_threads
from epigram.runner.search.trials import Trials
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.settings import load
from epigram.text.dataset.encoded_dataset import View
from epigram.text.dataset.validated_corpus import SPLITS, ValidatedCorpus
from epigram.workflow.search import candidates
from epigram.workflow.search.candidates import Facts
from epigram.workflow.search.choose import propose
from epigram.workflow.search.costs import Costs, shortage
from epigram.workflow.search.goal import Goal, Stopwatch
from epigram.workflow.search.halving import Answer, Ask, Failed
from epigram.workflow.search.plan import RunPlan

MIN_STAGE_SECONDS = 1.2  # minimum time of a stage
END_STAGES, END_SECONDS = 2.0, 2.5  # time after the last stage of a system: in stages, and for the report
VIEWS_SHARE = 0.6  # share of the time after which a view that is not encoded is left out
ENCODED = Path("data/pretrained")  # outputs of the last stages that a search runs


class SearchSession:
    """A search for the plan of `request`; `run` has the stages up to the encoded texts."""

    def __init__(self, request: Request, goal: Goal, watch: Stopwatch, run: PipelineRun, trials: Trials) -> None:
        self.request, self.goal, self.watch, self.run, self.trials = request, goal, watch, run, trials

    def search(self, measure: Callable[[SearchSession, Ask], Answer]) -> RunPlan:
        """Return the plan, after the stages have finished; `measure` runs a trial.

        If the last search was the same, its plan is returned, without trials. Raises RunFailedError if a stage failed.
        """
        if failure := self.run.failure:
            raise RunFailedError(self.run.result(), failure)
        facts, workspace = self._facts(), self.run.workspace
        key = search_key(self.goal, facts, [workspace.dataset, *self._fingerprints(facts)])
        if (kept := read_kept(workspace.path, key)) is not None:
            file = workspace.path / FILE
            echo(f"note: the plan is that of the last search with this data and budget: {file}", file=sys.stderr)
            return kept
        proposals = propose(facts, self.goal, self.watch, self._costs(), workspace.dataset)
        try:
            ask = next(proposals)
            while True:
                ask = proposals.send(measure(self, ask))
        except StopIteration as ended:
            plan: RunPlan = ended.value
            keep(workspace.path, key, plan)
            return plan

    def planned(self, plan: RunPlan) -> Request:
        """Return the request for the run of the plan, in this workspace and within the time.

        Keys that the search has not set keep the project's values. The plan has all that its trainings depend on.
        """
        plan = with_threads(plan.with_own_keys(read_params(self._params)), self._corpus().folds)
        costs = self._costs()
        if (short := shortage(self.watch.left, costs)) > 0:
            echo(f"note: the run will take at least {short:.0f} s longer than --budget says", file=sys.stderr)
        until = self.watch.started + self.goal.seconds - costs.end
        return replace(self.request, plan=plan, search=True, systems_until=until)

    def answer(self, ask: Ask) -> Answer:
        """Run a trial, and print its result or its error."""
        spec = ask.spec
        try:
            result = self.trials.run(spec, ask.seconds)
        except EpigramError as error:
            echo(f"note: {error}", file=sys.stderr)
            return Failed(error)
        rate = validate_as(System, spec.system).train.get("learning_rate")
        settings = f", learning rate {rate:g}" if rate else ""
        found = "takes too long" if result is None else f"{100 * result.score:.1f} in {result.seconds:.1f} s"
        left = f"{max(0.0, self.watch.left):.0f} s left"
        echo(f"trial of {spec.name} on {spec.rows:,} rows{settings}: {found}, {left}", file=sys.stderr)
        return result

    def _costs(self) -> Costs:
        """Return what a run costs besides training, by what the stages have taken."""
        seconds = [result.seconds for result in self.run.results().values() if result.seconds]
        stage = max(MIN_STAGE_SECONDS, median(seconds or [0.0]))
        return Costs(stage=stage, end=END_STAGES * stage + END_SECONDS)

    @property
    def _params(self) -> Path:
        return self.run.workspace.path / "params.yaml"

    def _facts(self) -> Facts:
        settings = load(self._params)
        corpus = self._corpus()
        rows = {name: corpus.rows.get(name, 0) for name in SPLITS}
        encoded = candidates.ENCODED in self.run.request.sections["views"]
        checkpoint = installed_encoder(corpus.language) if encoded else None
        return Facts(
            language=corpus.language,
            **rows,
            folds=corpus.folds,
            checkpoint=checkpoint,
            classes=len(corpus.labels),
            tokens=self._tokens(settings.train.get("max_length", candidates.LENGTH)) if checkpoint else {},
            alphabet=len(self._view(candidates.TOKENS).characters),
            shared=settings.train,
            examined=settings.examine.rows,
        )

    def _corpus(self) -> ValidatedCorpus:
        return ValidatedCorpus.read(self.run.workspace.path / "data" / "validated")

    def _tokens(self, longest: int) -> dict[int, float]:
        """Return the mean number of tokens of a training text for the maximum `longest`, and for shorter ones."""
        view = self._view(candidates.ENCODED)
        lengths = view.split(SPLITS[0]).ids.lengths + len(view.prefix_ids) + len(view.suffix_ids)
        maxima = [longest, *(length for length in candidates.SHORTER if length < longest)]
        return {most: float(np.minimum(lengths, most).mean()) for most in maxima}

    def _fingerprints(self, facts: Facts) -> list[str]:
        """Return what the code, the machine and the encoded texts are known by."""
        views = [candidates.TOKENS, *([candidates.ENCODED] if facts.checkpoint else [])]
        return [self.trials.origin, *(self._view(name).fingerprint for name in views)]

    def _view(self, name: str) -> View:
        return View.load(self.run.workspace.path / "data" / "encoded" / name)


@contextmanager
def open_search(request: Request, goal: Goal, started: float) -> Iterator[SearchSession]:
    """Prepare the workspace of a search, whose time began at the monotonic time `started`.

    Its running stages and trials end with the context.
    Raises ParameterError for a data set whose words are labelled and not its texts.
    """
    watch = Stopwatch(goal.seconds, started)
    until = started + VIEWS_SHARE * goal.seconds
    plan = _everything(request)
    with (
        open_run(replace(request, plan=plan, search=True, systems_until=until), until=ENCODED) as run,
        closing(Trials(run.workspace.path, request.root / ".epigram" / "trials")) as trials,
    ):
        yield SearchSession(request, goal, watch, run, trials)


def _everything(request: Request) -> RunPlan:
    """Return the plan with all systems that the search may try, so that their views are encoded."""
    dataset = str(request.dataset)
    source = load_source(dataset, request.root / "data" / "sources")
    if source.task == "tokens":
        raise ParameterError(f"--budget searches for systems that label texts, but {dataset} labels words")
    language = source.language
    facts = Facts(language=language, train=0, dev=0, test=0, folds=0, checkpoint=installed_encoder(language))
    systems: dict[str, Any] = {each.name: each.settings for each in candidates.closed_form(facts)}
    return RunPlan(
        dataset=dataset,
        seeds=[0],
        views=candidates.views(facts),
        systems=systems,
        pos_table=candidates.POS_TABLE,
    )
