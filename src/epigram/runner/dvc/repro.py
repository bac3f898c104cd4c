"""`dvc repro` of one target through DVC's Python interface, with a structured outcome.

python -P src/epigram/runner/dvc/repro.py CODE [--single-item] [--force] TARGET

CODE is the PYTHONPATH of the stages. This process itself imports the code of the runner that started it, not that of
the workspace, which may be an older revision.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from dvc.exceptions import DvcException
from dvc.repo import Repo

from epigram.core.errors import handle_errors, run_and_exit
from epigram.core.outcome import Outcome
from epigram.runner.dvc import lock_writer
from epigram.runner.dvc.errors import command_exit_code, translate


@handle_errors
def main() -> None:
    """Bring the target up to date.

    If a stage's command fails, exit with its exit code and leave its own outcome as it is.
    """
    code_path, *options, target = sys.argv[1:]
    os.environ["PYTHONPATH"] = code_path
    logging.getLogger("dvc").setLevel(logging.WARNING)  # only the stage's own lines are shown
    lock_writer.install()
    try:
        state = reproduce(target, single_item="--single-item" in options, force="--force" in options)
    except DvcException as error:
        if code := command_exit_code(error):
            sys.exit(code)
        raise translate(error) from error
    Outcome(stage=target, state=state).write()


def reproduce(target: str, *, single_item: bool, force: bool) -> str:
    """Run `dvc repro` and return Cached, Restored or Completed. Waits for DVC's lock."""
    restored: list[str] = []
    with Repo(_wait_for_lock=True) as repo:
        repo.stage_cache.restore = _recording(repo.stage_cache.restore, restored)
        changed = repo.reproduce([target], single_item=single_item, force=force)
    if not changed:
        return "Cached"
    return "Restored" if len(restored) == len(changed) else "Completed"


def _recording(restore: Callable[..., None], restored: list[str]) -> Callable[..., None]:
    """Wrap the method that restores a stage from DVC's run cache: DVC does not return which stages it restored."""

    def restore_and_record(stage: Any, **options: Any) -> None:
        restore(stage, **options)  # raises if the run cache lacks the stage
        restored.append(stage.addressing)

    return restore_and_record


if __name__ == "__main__":
    run_and_exit(main)
