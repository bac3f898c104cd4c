"""Reference statistics of the champion's texts, computed at its promotion, and the drift of new texts from them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from epigram.core.arrays import lengths_of
from epigram.core.config_types import validate_as
from epigram.core.errors import DataError, EpigramError
from epigram.core.files import read_json, write_json
from epigram.monitoring import REFERENCE
from epigram.runner.champions import champion
from epigram.runner.dvc.graph import Graph
from epigram.runner.retraining import inbox, ingest
from epigram.runner.retraining.live_data import LiveData, row_source
from epigram.runner.workspace.settings import RetrainSettings, Settings, load

if TYPE_CHECKING:
    import polars as pl

    from epigram.data.sources.source import Source
    from epigram.monitoring.drift import Measure

LABELS_NEEDED = "to retrain on such texts, put labelled ones into the folder retrain.incoming of params.yaml"
RETRAINING_RUNS = "a retraining is running; the next check decides about the files that it leaves"
NO_CHAMPION = "there is no champion yet, so drift cannot be measured; run epigram retrain first"
MAX_TRAINING_TEXTS = 20_000  # maximum number of training texts in the reference


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Result of a drift check of `texts`; `labelled` counts labelled texts that wait, up to the first file of them.

    These can be used for training. They need not be among the texts, which are the newest.
    """

    champion: int
    texts: int
    labelled: int
    threshold: float
    measures: tuple[Measure, ...] = ()
    outcome: str = ""

    @property
    def drifted(self) -> list[str]:
        """Names of the measures that have drifted."""
        return [measure.name for measure in self.measures if measure.drifted]

    def as_json(self) -> dict[str, Any]:
        """Return the content of a drift check's file. Infinite values become null, because JSON has no infinity."""
        chances = [None if math.isinf(each.chance) else each.chance for each in self.measures]
        measures = [asdict(each) | {"chance": chance} for each, chance in zip(self.measures, chances, strict=True)]
        return asdict(self) | {"measures": measures}

    def __str__(self) -> str:
        if not self.texts:
            return "no new texts"
        what = f"drift in {', '.join(self.drifted)}" if self.drifted else "no drift"
        after = f"; {self.outcome}" if self.outcome else ""
        return f"{what}: {self.texts:,} new texts against champion {self.champion}{after}"


@dataclass(frozen=True)
class NewTexts:
    """New texts, the label lists of labelled texts, and `labelled` as in Drift."""

    texts: list[str]
    labels: list[list[str]]
    labelled: int


def reference(model: Path, stages: Graph) -> str:
    """Return the statistics of the reference texts of `model` (training and development), as JSON.

    Lengths, n-grams and labels are from training texts. The unknown tokens, the likeness and the predictions are from
    development texts: on its training texts, a model is more confident and knows all tokens.
    """
    from epigram.inference.predictors.open_predictor import open_predictor
    from epigram.monitoring.drift import Reference, class_histogram, fit_ngrams, histogram, ngram_similarity
    from epigram.text.dataset.validated_corpus import CORPUS, SPLITS, ValidatedCorpus

    file = stages.find(CORPUS)
    assert file is not None
    corpus, predictor = ValidatedCorpus.read(file.parent), open_predictor(model)
    known = corpus.frame(SPLITS[0], "text", corpus.label_column, most=MAX_TRAINING_TEXTS)
    dev = corpus.frame("dev", "text")
    labels, texts, ngrams = predictor.labels, dev["text"].to_list(), fit_ngrams(known["text"].to_list())
    predicted = _predictions(predictor, texts)
    stored = Reference(
        labels=labels,
        ngrams=ngrams,
        histograms={
            "length": histogram(lengths_of(known["text"].to_list())),
            "unknown": histogram(predicted["unknown"]),
            "likeness": histogram(ngram_similarity(texts, ngrams)),
            "predicted": class_histogram(predicted["predicted"], len(labels)),
            "confidence": histogram(predicted["confidence"]),
            "label": class_histogram(_class_indices(_label_lists(known), labels), len(labels)),
        },
    )
    return json.dumps(asdict(stored), ensure_ascii=False) + "\n"


def check(root: Path, file: Path | None) -> Drift | None:
    """Measure the waiting texts, or `file`'s texts, and write runs/drift/TIME.json; return None without a champion."""
    settings, latest = load(root / "params.yaml"), champion.current(root)
    if latest is None:
        return None
    new = new_texts(root, latest.dataset, settings, file)
    folder = champion.restore(root, latest)
    champion.check_reference(root, latest)
    result = measure(folder, latest.number, new, settings.drift.threshold)
    write_json(root / "runs" / "drift" / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.json", result.as_json())
    return result


def measure(folder: Path, number: int, new: NewTexts, threshold: float) -> Drift:
    """Measure the drift of new texts from the reference of the champion in `folder`.

    Raises DataError if the reference lacks a measure.
    """
    from epigram.inference.predictors.open_predictor import open_predictor
    from epigram.monitoring.drift import MEASURES, Reference, ngram_similarity
    from epigram.monitoring.drift import measure as compare

    stored = validate_as(Reference, read_json(folder / REFERENCE), file=str(folder / REFERENCE))
    if missing := MEASURES.keys() - stored.histograms.keys():
        raise DataError(f"{folder / REFERENCE} lacks {', '.join(sorted(missing))}; delete the file and rerun the check")
    values: dict[str, Any] = {}
    if new.texts:
        values = {"length": lengths_of(new.texts), "likeness": ngram_similarity(new.texts, stored.ngrams)}
        values |= _predictions(open_predictor(folder / "model"), new.texts)
    if new.labels:
        values["label"] = _class_indices(new.labels, stored.labels)
    measures = tuple(compare(stored, values, threshold))
    return Drift(champion=number, texts=len(new.texts), labelled=new.labelled, threshold=threshold, measures=measures)


def markdown_table(result: Drift) -> str:
    """Return the measures as a Markdown table."""
    from epigram.monitoring.drift import MEASURES
    from epigram.report.table import Cell, Heading, Line, Table
    from epigram.report.table import markdown_table as to_markdown

    headings = [
        Heading(text="measure", kind="mark"),
        Heading(text="index", kind="number"),
        Heading(text="expected by chance", kind="number"),
        Heading(text="drifted", kind="mark"),
        Heading(text="description", kind="mark"),
    ]
    lines = []
    for measure in result.measures:
        chance = f"{measure.chance:.3f}" if math.isfinite(measure.chance) else "any"
        drifted = "**yes**" if measure.drifted else ""
        cells = (measure.name, f"{measure.index:.3f}", chance, drifted, MEASURES[measure.name])
        lines.append(Line(list(map(Cell, cells))))
    return f"{to_markdown(Table(headings, lines))}\n\nthreshold: {result.threshold:g}\n"


def new_texts(root: Path, dataset: str, settings: Settings, file: Path | None) -> NewTexts:
    """Return the newest waiting texts, or the texts of `file`. Raises DataError if a file cannot be read."""

    from epigram.data.growing_dataset import drop_known

    source = row_source(root, dataset, settings.retrain.encoding)
    if file:
        return _newest_texts([_read(file, source)], settings.drift.window)

    def read_queried(file: Path) -> pl.DataFrame:
        live = LiveData(root, dataset, settings)
        if live.ledger:
            live.check()
        return drop_known(live.read(), _read(file, source))  # the query returns the rows that were added, too

    with TemporaryDirectory() as scratch:
        queried = ingest.query_database(root, settings.retrain, Path(scratch) / ingest.QUERY_FILE)
        frames = chain(
            (_read_waiting(each, source) for each in _newest_first(root, settings.retrain)),
            map(read_queried, queried),
        )
        return _newest_texts(frames, settings.drift.window)


def _newest_first(root: Path, settings: RetrainSettings) -> list[Path]:
    modified: dict[Path, float] = {}
    for file in inbox.waiting_files(inbox.inbox_folder(root, settings.incoming)):
        with suppress(FileNotFoundError):  # a retraining has moved it meanwhile
            modified[file] = file.stat().st_mtime
    return sorted(modified, key=modified.__getitem__, reverse=True)


def _read_waiting(file: Path, source: Source) -> pl.DataFrame:
    """Return the texts of a file as `_read` does; none if a retraining has moved the file meanwhile."""
    import polars as pl

    try:
        return _read(file, source)
    except (OSError, EpigramError):
        if file.exists():
            raise
        return pl.DataFrame(schema={"text": pl.String})


def _read(file: Path, source: Source) -> pl.DataFrame:
    """Return the texts of a file, and their labels if it has labels."""
    import polars as pl

    from epigram.data.incoming_rows import read_file, read_texts

    if not file.stat().st_size:
        return pl.DataFrame(schema={"text": pl.String})
    try:
        return read_file(file, source)
    except DataError:  # without labels, or broken: then read_texts raises an error
        return pl.DataFrame({"text": read_texts(file, source)}, schema={"text": pl.String})


def _newest_texts(frames: Iterable[pl.DataFrame], window: int) -> NewTexts:
    """Return the last texts of each frame, at most `window` in total; frames are read until one has labels, too."""
    texts: list[str] = []
    labels: list[list[str]] = []
    labelled = 0
    for frame in frames:
        newest = frame.tail(window - len(texts))
        texts += newest["text"].to_list()
        labels += _label_lists(newest)
        labelled += 0 if frame.columns == ["text"] else frame.height
        if len(texts) == window and labelled:
            break
    return NewTexts(texts, labels, labelled)


def _predictions(predictor: Any, texts: list[str]) -> dict[str, Any]:
    """Return the share of unknown tokens, the predicted class and the confidence of each text."""
    from epigram.monitoring.drift import unknown_share

    encoder, predicted = predictor.encoder, predictor.probabilities(texts)
    ids = encoder.encode(texts, predictor.room).ids
    return {
        "unknown": unknown_share(ids, encoder.unk_id),
        "predicted": predictor.choose(predicted),
        "confidence": predicted.max(1),
    }


def _label_lists(frame: pl.DataFrame) -> list[list[str]]:
    """Return the label list of each row that has labels."""
    if frame.columns == ["text"]:
        return []
    multi_label = "labels" in frame.columns
    rows = frame["labels"].to_list() if multi_label else [[label] for label in frame["label"].to_list()]
    labels = ([label for label in row or [] if label] for row in rows)
    return [row for row in labels if row]


def _class_indices(labels: list[list[str]], known: list[str]) -> Any:
    """Return the class indices of all labels that the champion knows, concatenated over the rows."""
    import polars as pl

    codes = dict(zip(known, range(len(known)), strict=True))
    return (
        pl.Series([label for row in labels for label in row], dtype=pl.String)
        .replace_strict(codes, default=None, return_dtype=pl.Int64)
        .drop_nulls()
        .to_numpy()
    )
