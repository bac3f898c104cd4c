"""A model of the server: its folder is loaded again when it changes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from epigram.inference.predictors.open_predictor import open_predictor
from epigram.inference.server.batching import Batcher
from epigram.inference.server.errors import RequestError
from epigram.inference.server.input_statistics import InputStatistics, read_reference
from epigram.inference.server.settings import ServerSettings
from epigram.models.manifest import stamps
from epigram.process.display import echo

Record = dict[str, Any]
FIRST_TEXT = "word"  # predicted once before a model is used: a network's first prediction is slow


class ServedModel:
    """Model with its name, its queue of requests and the statistics of its texts and answers.

    Raises the errors of `open_predictor`.
    """

    def __init__(self, name: str, folder: Path, settings: ServerSettings, min_confidence: float) -> None:
        self.name, self.folder, self.min_confidence = name, folder, min_confidence
        self.statistics, self.reloads, self.failures = InputStatistics(), 0, 0
        self._load()
        self.batcher: Batcher[Record] = Batcher(
            self._predict,
            batch_texts=settings.batch_texts,
            max_waiting=settings.max_waiting,
            workers=settings.workers,
        )

    def describe(self) -> dict[str, object]:
        """Return name, labels and kind of the model, as JSON values."""
        predictor = self.predictor
        return {
            "name": self.name,
            "labels": predictor.labels,
            "multi_label": predictor.multi,
            "max_tokens": predictor.room,
            "min_confidence": predictor.min_confidence,
            "loaded": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.loaded)),
        }

    async def follow(self, seconds: float) -> None:
        """Load the folder again whenever it has changed; check it every few `seconds`."""
        tried = self.stamps
        while True:
            await asyncio.sleep(seconds)
            found = await asyncio.to_thread(stamps, self.folder)
            if found not in (self.stamps, tried):
                tried = found
                await asyncio.to_thread(self._reload)

    def _reload(self) -> None:
        """Replace the predictor; the batch in progress ends with the old one, which stays if the new one is invalid."""
        try:
            self._load()
        except Exception as error:  # a library may raise anything for a damaged file
            self.failures += 1
            echo(f"{self.name}: the old model stays, because the changed folder is invalid: {error}", flush=True)
            return
        self.statistics.forget_texts()
        self.reloads += 1
        echo(f"{self.name}: loaded again from {self.folder}", flush=True)

    def _load(self) -> None:
        found, reference = stamps(self.folder), read_reference(self.folder)
        predictor = open_predictor(self.folder, min_confidence=self.min_confidence)
        predictor.predict([FIRST_TEXT])
        self.stamps, self.reference, self.predictor, self.loaded = found, reference, predictor, time.time()

    def explain(self, text: str, label: str | None) -> Record:
        """Return the explanation of a text as JSON values. Raises RequestError for an unknown label."""
        predictor = self.predictor
        if label is not None and label not in predictor.labels:
            raise RequestError(404, f"{self.name} has no label {label!r}; GET /v1/models lists its labels")
        return predictor.explain([text], label=label)[0].to_dict()

    def _predict(self, texts: list[str]) -> list[Record]:
        predictor = self.predictor  # another one may replace it meanwhile
        answers = predictor.predict(texts)
        self.statistics.add(predictor, texts, answers)
        return [predictor.record(answer) | {"truncated": answer.truncated} for answer in answers]
