"""Body of the flow `retrain`: the checks before it, the tree in which the new model was trained, and the result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from epigram.core.errors import TryAgainError
from epigram.process.display import escape_markdown
from epigram.runner.champions import champion
from epigram.runner.champions.champion import Champion
from epigram.runner.dvc import graph
from epigram.runner.dvc.graph import Graph
from epigram.runner.retraining import challenge, drift
from epigram.runner.retraining.challenge import Challenge
from epigram.runner.retraining.ingest import Ingestion
from epigram.runner.retraining.live_data import LiveData, grown_name
from epigram.runner.retraining.withdrawal import Withdrawal, withdraw
from epigram.runner.runs.publish import Run, write_index
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.settings import Settings, load
from epigram.runner.workspace.workspace import open_workspace


@dataclass(frozen=True, kw_only=True)
class Retraining:
    """Result of a retraining: the champion, which is the new or still the old one, and the reason."""

    promoted: bool
    reason: str
    run: str
    ingestion: Ingestion
    champion: Champion

    @property
    def outcome(self) -> str:
        """Whether the new model was promoted, and why."""
        return f"{'promoted' if self.promoted else 'refused'}: {self.reason}"

    @property
    def skipped(self) -> list[str]:
        """One line for each file that was left in the inbox, with the reason."""
        return [f"skipped: {line}" for line in self.ingestion.skipped]

    def as_markdown(self) -> str:
        """Return the result as a page for the dashboard."""
        texts = (self.reason, str(self.ingestion), f"run: {self.run}", str(self.champion))
        reason, *details = map(escape_markdown, texts)
        outcome = "Promoted" if self.promoted else "Refused"
        return "\n".join([f"**{outcome}**: {reason}", "", *(f"* {detail}" for detail in details), ""])


@dataclass(frozen=True)
class Session:
    """A retraining in progress: the repository, its settings, and the name of the growing data set."""

    root: Path
    settings: Settings
    dataset: str

    def request(self, ingestion: Ingestion) -> Request:
        """Return the request for the run on all rows. Raises ParameterError if its settings are invalid."""
        request = Request(root=self.root, dataset=ingestion.dataset, systems=tuple(self.settings.retrain.systems))
        overrides.check(request)
        return request

    @contextmanager
    def open_tree(self, request: Request) -> Iterator[TrainedTree]:
        """Lock the tree in which the request ran. Raises TryAgainError if its files have changed since."""
        with open_workspace(request) as workspace:
            stages = graph.read(workspace.path)
            if len(stages.current) < len(stages):
                raise TryAgainError(f"the files of {self.root} changed during the retraining; start it again")
            yield TrainedTree(self.root, workspace.path, stages)

    def result(self, run: Run, ingestion: Ingestion, challenged: Challenge) -> Retraining:
        """Return the result, with the champion that is now in use."""
        latest = champion.current(self.root)
        assert latest is not None
        decision = challenged.decision
        return Retraining(
            promoted=decision.promoted, reason=decision.reason, run=run.name, ingestion=ingestion, champion=latest
        )


@dataclass(frozen=True)
class TrainedTree:
    """Working tree in which the new model was trained, with its stages in `graph`; `root` is the repository."""

    root: Path
    path: Path
    graph: Graph

    def challenge(self, run: Run) -> Challenge:
        """Compare the model that the run chose with the champion."""
        return challenge.challenge(self.root, self.path, self.graph, run, load(self.root / "params.yaml"))

    def promote(self, challenged: Challenge) -> Champion:
        """Make the challenger the champion."""
        entry = replace(challenged.challenger, verdict=challenged.decision.reason)
        reference = drift.reference(self.path / entry.model, self.graph)
        promoted = champion.promote(self.root, self.path, entry, reference)
        write_index(self.root / "runs")
        return promoted


@contextmanager
def open_session(root: Path, dataset: str | None) -> Iterator[Session]:
    """Hold the champion's lock, and check first that a new champion could be recorded.

    `dataset` is the base data set; if None, the champion's or params.yaml's.
    """
    with _lock_data(root, dataset) as session:
        champion.check_can_promote(root)
        yield session


def restore_data(root: Path, dataset: str | None) -> str:
    """Restore the file of the growing data set from its base and all accepted batches, and return a report."""
    with _lock_data(root, dataset) as session:
        return LiveData(root, session.dataset, session.settings).rebuild()


def withdraw_file(root: Path, dataset: str | None, file: str) -> Withdrawal:
    """Withdraw the rows of an accepted file from the growing data set."""
    with _lock_data(root, dataset) as session:
        return withdraw(LiveData(root, session.dataset, session.settings), file)


@contextmanager
def _lock_data(root: Path, dataset: str | None) -> Iterator[Session]:
    settings = load(root / "params.yaml")
    with champion.lock(root):
        latest = champion.current(root)
        name = grown_name(dataset or (latest.dataset if latest else settings.dataset))
        challenge.check_dataset(latest, name)
        yield Session(root, settings, name)
