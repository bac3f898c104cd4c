"""`epigram.fit` on a table of texts, and a prediction."""

from __future__ import annotations

import polars as pl

import epigram
from benchmarks.accuracy_tools.project import rows_of
from benchmarks.accuracy_tools.task import finish, read_task
from epigram.text.dataset.language import as_language


def main() -> None:
    """Fit within what is left of the budget, and predict with the chosen model."""
    task = read_task()
    budget = f"{max(1.0, task.terms.left()):.1f}s"
    model = epigram.fit(pl.DataFrame(rows_of(task)), budget=budget, language=as_language(task.terms.language))
    fitted = task.terms.used
    predicted = [str(one.label) for one in model.predict(task.tests)]
    settings = f"budget {budget}, {model.name} of {', '.join(model.systems)}"
    finish(predicted, fitted=fitted, settings=settings, packages=["torch", "numpy"])


if __name__ == "__main__":
    main()
