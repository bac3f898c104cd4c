"""Training from Python: the best model of a table of texts that a time budget allows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from epigram.core.config_types import validate_as
from epigram.core.errors import ParameterError
from epigram.core.masking import Kind, masking
from epigram.core.pairs import PAIR
from epigram.data.sources.inspection import ORDER_NOTE
from epigram.data.validation.settings import ValidateSettings
from epigram.evaluation.metrics.function_scores import MetricFunction, metric_setting
from epigram.evaluation.metrics.primary import OF_ORDER
from epigram.evaluation.settings import AUTO, ReportSettings, name_of
from epigram.fitting.fitted_model import PREFIX, FittedModel
from epigram.fitting.inputs import write_raw
from epigram.fitting.progress import live
from epigram.fitting.record import write_record
from epigram.fitting.search import Search
from epigram.fitting.steps import Steps, StepSettings
from epigram.fitting.stopwatch import Stopwatch, parse_budget
from epigram.fitting.systems import expected, missing_encoder
from epigram.process.display import echo
from epigram.text.dataset.language import Language
from epigram.text.dataset.validated_corpus import ValidatedCorpus

LOG = "fit.log"  # what the steps print


def fit(
    data: Any,
    labels: Iterable[Any] | None = None,
    *,
    text: str | Sequence[str] = "text",
    pair: bool = False,
    label: str = "label",
    group: str | Iterable[Any] | None = None,
    time: str | Iterable[Any] | None = None,
    slices: Sequence[str] | Mapping[str, Iterable[Any]] = (),
    ordered: Iterable[Any] | None = None,
    hierarchy: str = "",
    budget: str = "1m",
    metric: str | Mapping[str, Any] | MetricFunction = AUTO,
    language: Language | None = None,
    options: Mapping[str, str] | None = None,
    mask: Sequence[Kind] = (),
    neighbors: bool = False,
    verbose: bool = True,
) -> FittedModel:
    """Train classifiers on labelled texts, and return the best one on held-out texts.

    `data` is texts with `labels` (one each, or a list of them each), a frame or a file with the columns `text` and
    `label` (several columns `text` are joined, or two are a `pair`), or a folder with a folder of texts for each label.
    `options` say how a file is read where this is not detected: encoding, separator, sheet. A column named split, or
    with the names of splits, gives the splits; without one they are drawn. `group` is a column, or a value for each
    text: no value, for example no author, is in two splits or folds. `time` is one by which the newest texts are held
    out. The report has the score of each value of the columns `slices` (with `labels`, a mapping to the values of each
    text). `ordered` are the labels in their order, if they have one and are no numbers. `hierarchy` is the separator of
    levels in labels, such as / in goods/phone, and the report scores each level. The `metric`, as in params.yaml
    (docs/settings.md), chooses the model; by default, it is the score of the task. It can be a function of two arrays,
    the right and the predicted labels, that returns a number, larger is better (docs/howto/own_metric.md). The `budget`
    (90s, 20m, 1h) is the time until the model is returned. The first system is the best one by experience that fits
    into the time, and is trained to its end; what is left of the time goes to others, which are stopped when the time
    is over. `mask` hides email, phone or id in the report. With `neighbors`, the model's folder has the training texts,
    and `explain` shows the nearest ones; the vectors of the texts take the time of their predictions, after the budget.
    Raises ParameterError for arguments that do not fit together, DataError for faults of the texts.
    """
    watch = Stopwatch(parse_budget(budget), monotonic())
    place = TemporaryDirectory(prefix=PREFIX)
    if pair and (isinstance(text, str) or len(text) != 2):
        raise ParameterError(f"fit: text is {text!r}; a pair needs two columns, for example ['question', 'answer']")
    report = validate_as(ReportSettings, {"mask": list(mask)}, file="fit")
    left_out = ValidateSettings(on_empty="drop", on_unlabelled="drop")
    with (
        metric_setting(metric, "fit") as score,
        masking(report.mask),
        _printer(Path(place.name) / LOG, verbose=verbose) as say,
    ):
        steps = Steps(Path(place.name), StepSettings(validate=left_out, metric=score, report=report))
        columns: dict[str, Any] = {"text": text, "label": label, "group": group, "time": time, "ordered": ordered}
        columns |= {"slices": slices, "hierarchy": hierarchy}
        raw = steps.folder / "raw"
        reading = {**(options or {}), **({"join": PAIR} if pair else {})}
        for note in write_raw(data, labels, **columns, language=language, folder=raw, options=reading):
            say(f"note: {note}")
        if ordered is not None and name_of(score) not in OF_ORDER:
            say(f"note: {ORDER_NOTE}")
        search = Search(steps, watch, say)
        with live(search, shown=verbose):
            search.run()
            settings = {name: candidate.settings for name, candidate in search.systems.items()}
            facts = search.facts
            summary = steps.compare(settings, search.examined, expected(facts), missing_encoder(facts))
        if neighbors:
            _write_training_texts(steps)
        say(summary.verdict)
        if note := watch.overrun():
            say(f"note: {note}")
    write_record(steps, settings, summary.chosen_system)
    return FittedModel(place, steps, summary, settings, search.left_out)


def _write_training_texts(steps: Steps) -> None:
    """Write the training texts, with their labels and vectors, to the folder of the chosen model."""
    from epigram.inference.explanations.neighbors import write_neighbors

    corpus = ValidatedCorpus.read(steps.folder / "validated")
    texts, labels = corpus.frame("train", "text", corpus.label_column)
    several = corpus.task == "multi"
    write_neighbors(steps.chosen, texts.to_list(), [each if several else [each] for each in labels])


@contextmanager
def _printer(path: Path, *, verbose: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints a line to stderr if `verbose`, and to the log, which also gets what steps print."""
    with path.open("w", encoding="utf-8") as log:

        def say(line: str) -> None:
            if verbose:
                echo(line, file=sys.stderr)
            echo(line, file=log)

        with redirect_stdout(log):
            yield say
