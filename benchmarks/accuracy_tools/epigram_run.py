"""`epigram run --budget` with the quality named on the command line, in a new project, and a prediction."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.accuracy_tools.project import LOCAL, NAME, rows_of
from benchmarks.accuracy_tools.task import finish, read_task, write_rows

FOLDER = Path("project")


def epigram(*arguments: str, cwd: Path = FOLDER) -> None:
    """Run a command of epigram in the project; end if it fails, so that its error is the last line."""
    done = subprocess.run([sys.executable, "-m", "epigram.cli", *arguments], cwd=cwd, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    """Create the project, run with what is left of the budget, and predict with the chosen model."""
    task, quality = read_task(), sys.argv[1]
    epigram("init", str(FOLDER), cwd=Path())
    write_rows(FOLDER / LOCAL, rows_of(task))
    epigram("add", LOCAL, "--split", "split", "--language", task.terms.language)
    budget = f"{max(1, int(task.terms.left()))}s"
    epigram("run", "--dataset", NAME, "--budget", budget, "--quality", quality)
    fitted = task.terms.used
    from epigram import load

    model = load(FOLDER / "runs/latest/model")
    predicted = [str(one.label) for one in model.predict(task.tests)]
    finish(predicted, fitted=fitted, settings=f"quality {quality}, budget {budget}", packages=["torch", "numpy"])


if __name__ == "__main__":
    main()
