"""`dvc repro` of one target through DVC's Python interface, with a structured outcome.

python -P src/epigram/runner/dvc/repro.py CODE [--single-item] [--force] TARGET

CODE is the PYTHONPATH of the stages. This process itself imports the code of the runner that started it, not that of
the workspace, which may be an older revision.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from dvc.exceptions import DvcException

from epigram.core.errors import handle_errors, run_and_exit
from epigram.core.outcome import Outcome
from epigram.runner.dvc import lock_writer
from epigram.runner.dvc.adapter import open_repo, record_restored
from epigram.runner.dvc.errors import command_exit_code, translate
from epigram.runner.dvc.run_cache import retry_on_conflict


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
    with open_repo(Path.cwd()) as repo:
        retry_on_conflict(repo)
        restored = record_restored(repo)
        changed = repo.reproduce([target], single_item=single_item, force=force)
    if not changed:
        return "Cached"
    return "Restored" if len(restored) == len(changed) else "Completed"


if __name__ == "__main__":
    run_and_exit(main)
