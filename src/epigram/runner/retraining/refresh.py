"""Body of the flow `refresh_pos`: a forced rerun of one stage, and the next version of the part-of-speech table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from prefect import get_run_logger

from epigram.core.config_types import nearest
from epigram.core.errors import EpigramError, ParameterError, TryAgainError
from epigram.runner.champions import champion
from epigram.runner.dvc import graph
from epigram.runner.dvc.process import PROGRESS, ReproProcesses
from epigram.runner.prefect.stage import Log
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import Workspace, lock_tree, open_workspace


def refresh(request: Request, stage: str) -> bool:
    """Rerun `stage` in the workspace of the request, and publish the next version of the part-of-speech table.

    Returns whether the output of the stage has changed or a version was published. Raises ParameterError for an unknown
    stage, EpigramError if the stage fails, and TryAgainError during a retraining or a run in the user's tree.
    """
    with open_workspace(request) as workspace:
        stages = graph.read(workspace.path).stages
        if stage not in stages:
            raise ParameterError(f"unknown stage {stage!r}: {nearest(stage, list(stages))}")
        changed = rerun(workspace.path, stage, get_run_logger())
        published = publish_words(workspace, stages[stage].outs[0])
        return changed or published


def rerun(root: Path, name: str, log: Log) -> bool:
    """Bring stage `name` and its dependencies up to date, rerun it, and return whether its output has changed.

    Raises EpigramError with the outcome of the stage that fails, TryAgainError if it can be run again (exit code 75).
    """
    from epigram.runner.dvc.adapter import locked_stages

    def reproduce(*arguments: str) -> Any:
        outcome = processes.run(*arguments, forward=forward)
        if outcome and outcome.code:
            kind = TryAgainError if outcome.code == TryAgainError.code else EpigramError
            raise kind(f"{outcome.stage} failed (exit {outcome.code}): {outcome.message}")
        return locked_stages(root)[name]["outs"]

    def forward(lines: Iterable[str]) -> None:
        for line in lines:
            if not line.startswith(PROGRESS):
                log.info("%s", line)

    processes = ReproProcesses(root)
    try:
        before = reproduce(name)
        return bool(reproduce("--single-item", "--force", name) != before)
    finally:
        processes.stop()


def publish_words(workspace: Workspace, table: Path) -> bool:
    """Publish the words of the training texts that the latest version lacks, and return whether there are any.

    `table` is the output of the stage that was rerun. The new version is written into the user's tree, which all
    workspaces share, and tracked by DVC.
    """
    from epigram.runner.dvc.adapter import track
    from epigram.text.dataset.validated_corpus import CORPUS
    from epigram.text.pos.pos_versions import VERSIONS_FOLDER, WORDS, find_words, publish

    corpus = graph.read(workspace.path).find(CORPUS)
    if corpus is None or not (table / "table.parquet").is_file():
        return False  # the stage writes no part-of-speech table
    found = find_words(corpus.parent, table, workspace.path)
    with _lock_versions(workspace):
        version = publish(workspace.main / VERSIONS_FOLDER, found)
        if version is None:
            return False
        track(workspace.main, workspace.main / VERSIONS_FOLDER / WORDS)
    words = version.words.select("language", "entry").n_unique()
    get_run_logger().info("published version %d of the part-of-speech table: %d words", version.number, words)
    return True


@contextmanager
def _lock_versions(workspace: Workspace) -> Iterator[None]:
    """Keep the versions of the table from the runs that a new one would disturb: it is an input of their stages.

    Raises TryAgainError during a retraining, which would start again at its end, or a run in the user's tree.
    """
    with ExitStack() as locks:
        try:
            locks.enter_context(champion.lock(workspace.main))
            if workspace.path != workspace.main:
                locks.enter_context(lock_tree(workspace.main))
        except TryAgainError as error:
            raise TryAgainError(f"no new version is published; the next refresh publishes it: {error}") from None
        yield
