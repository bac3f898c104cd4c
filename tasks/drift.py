"""The texts that the champion knows, measured once when it is promoted, and new ones measured against them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pithy.errors import DataError
from pithy.files import read_json
from pithy.settings import RetrainSettings, Settings
from pithy.values import typed
from tasks import inbox, ingest
from tasks.champion import REFERENCE
from tasks.graph import Graph

if TYPE_CHECKING:
    import polars as pl

    from pithy.corpus.source import Source
    from pithy.evaluation.drift import Measure

MOST = 20_000  # training texts that are looked at


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What new texts look like to a champion; `labelled` of the texts have labels, and so could be learnt."""

    champion: int
    texts: int
    labelled: int
    threshold: float
    measures: tuple[Measure, ...] = ()
    outcome: str = ""

    @property
    def drifted(self) -> list[str]:
        """The measures that have drifted."""
        return [measure.name for measure in self.measures if measure.drifted]

    def as_json(self) -> dict[str, Any]:
        """The content of a drift check's file: what is infinite is null there, as JSON has no number for it."""
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
class Texts:
    """New texts, and the labels of each that has any."""

    texts: list[str]
    labels: list[list[str]]


def reference(model: Path, stages: Graph) -> str:
    """What is kept of the texts that `model` knows, as JSON: training texts, and what it says of development texts.

    A model is surer of training texts than it will be of any others, and knows all of their tokens.
    """
    from pithy.evaluation.drift import Reference, classes, histogram, learnt, lengths, likeness
    from pithy.inference.predictor import Predictor
    from tasks.challenge import CORPUS, dev_texts

    corpus = stages.find(CORPUS)
    assert corpus is not None
    known, dev, predictor = _training_texts(corpus.parent), dev_texts(corpus.parent), Predictor(model)
    labels, texts, ngrams = predictor.saved.labels, dev["text"].to_list(), learnt(known["text"].to_list())
    said = _answers(predictor, texts)
    kept = Reference(
        labels=labels,
        ngrams=ngrams,
        histograms={
            "length": histogram(lengths(known["text"].to_list())),
            "unknown": histogram(said["unknown"]),
            "likeness": histogram(likeness(texts, ngrams)),
            "predicted": classes(said["predicted"], len(labels)),
            "confidence": histogram(said["confidence"]),
            "label": classes(_codes(_labels(known), labels), len(labels)),
        },
    )
    return json.dumps(asdict(kept), ensure_ascii=False) + "\n"


def measure(folder: Path, number: int, new: Texts, threshold: float) -> Drift:
    """Measure new texts against the champion in `folder`."""
    from pithy.evaluation.drift import MEASURES, Reference, lengths, likeness
    from pithy.evaluation.drift import measure as compare
    from pithy.inference.predictor import Predictor

    kept = typed(Reference, read_json(folder / REFERENCE), file=str(folder / REFERENCE))
    if missing := MEASURES.keys() - kept.histograms.keys():
        raise DataError(f"{folder / REFERENCE} lacks {', '.join(sorted(missing))}: delete it, and check again")
    values: dict[str, Any] = {}
    if new.texts:
        values = {"length": lengths(new.texts), "likeness": likeness(new.texts, kept.ngrams)}
        values |= _answers(Predictor(folder / "model"), new.texts)
    if new.labels:
        values["label"] = _codes(new.labels, kept.labels)
    found = tuple(compare(kept, values, threshold))
    return Drift(champion=number, texts=len(new.texts), labelled=len(new.labels), threshold=threshold, measures=found)


def arrived(root: Path, dataset: str, settings: Settings, file: Path | None) -> Texts:
    """The newest texts that wait to be taken in, or those of `file`. Raises DataError for what cannot be read."""
    source = ingest.stream(root, dataset)
    with TemporaryDirectory() as scratch:
        files = [file] if file else _newest_first(root, settings.retrain, Path(scratch))
        return _read(files, source, settings.drift.window)


def _newest_first(root: Path, settings: RetrainSettings, scratch: Path) -> list[Path]:
    files = sorted(
        inbox.arrived(inbox.folder_of(root, settings.incoming)), key=lambda file: file.stat().st_mtime, reverse=True
    )
    return [*files, *ingest.asked(root, settings, scratch)]


def _read(files: Sequence[Path], source: Source, window: int) -> Texts:
    """The last texts of each file until there are `window`."""
    from pithy.corpus.incoming import read_file, read_texts

    texts: list[str] = []
    labels: list[list[str]] = []
    for file in files:
        room = window - len(texts)
        if room <= 0:
            break
        if not file.stat().st_size:
            continue
        try:
            frame = read_file(file, source).tail(room)
        except DataError:  # without labels, or broken, which reading it as texts alone says
            texts += read_texts(file, source)[-room:]
        else:
            texts += frame["text"].to_list()
            labels += _labels(frame)
    return Texts(texts, labels)


def _answers(predictor: Any, texts: list[str]) -> dict[str, Any]:
    """unknown, predicted and confidence of each text."""
    from pithy.evaluation.drift import unknown_share

    encoder, said = predictor.encoder, predictor.probabilities(texts)
    ids, offsets, _ = encoder.encode(texts, predictor.saved.frame.max_length)
    return {
        "unknown": unknown_share(ids, offsets, encoder.unk_id),
        "predicted": said.argmax(1),
        "confidence": said.max(1),
    }


def _training_texts(validated: Path) -> pl.DataFrame:
    """Training texts with their labels, evenly spaced where there are many."""
    import polars as pl

    from pithy.corpus.keys import SPLITS

    frame = pl.read_parquet(validated / f"{SPLITS[0]}.parquet")
    return frame.gather_every(max(1, -(-frame.height // MOST)))


def _labels(frame: pl.DataFrame) -> list[list[str]]:
    """The labels of each row that has any."""
    several = "labels" in frame.columns
    rows = frame["labels"].to_list() if several else [[label] for label in frame["label"].to_list()]
    kept = ([label for label in row or [] if label] for row in rows)
    return [row for row in kept if row]


def _codes(labels: list[list[str]], known: list[str]) -> Any:
    """The numbers of the labels that the champion knows, of all rows together."""
    import polars as pl

    codes = dict(zip(known, range(len(known)), strict=True))
    return (
        pl.Series([label for row in labels for label in row], dtype=pl.String)
        .replace_strict(codes, default=None, return_dtype=pl.Int64)
        .drop_nulls()
        .to_numpy()
    )
