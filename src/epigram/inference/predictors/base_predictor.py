"""What a saved model and an ensemble have in common: texts in, labels, probabilities and labelled words out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.core.label_paths import level_names
from epigram.evaluation.arrays import Ints
from epigram.evaluation.metrics.choice import choose_labels
from epigram.inference.predictors.explanation import Explanation
from epigram.models.ensemble import Prices
from epigram.models.predict import Predicted
from epigram.text.tokens.alignment import PositionedTokens
from epigram.text.tokens.characters import strip
from epigram.text.tokens.encoding import TextEncoder


@dataclass(frozen=True)
class Word:
    """A word of a text, from character `start` to `end`, with its most likely label."""

    text: str
    start: int
    end: int
    label: str
    probability: float


def words_of(
    texts: Sequence[str], tokens: PositionedTokens, predicted: Predicted, labels: Sequence[str]
) -> list[list[Word]]:
    """Return the words of each text; a word gets the label of its first token and ends where its last token ends."""
    assert predicted.tokens is not None
    assert predicted.counts is not None
    first, spans = word_spans(tokens, predicted.counts)
    return labelled_words(texts, spans, predicted.tokens[first], labels)


def word_spans(tokens: PositionedTokens, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], Ragged[np.int64]]:
    """Return the words of the first `counts` (N,) tokens of each text, which a model may read alone.

    These are the number of the first token of each word among all tokens read, (W,), and the start and the end of the
    words, (W, 2), as N rows.
    """
    row = tokens.ids.row_numbers()
    read = tokens.ids.positions() < counts[row]
    row, number, spans = row[read], tokens.words[read], tokens.spans[read]
    first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(number, prepend=-1) != 0))
    last = np.append(first[1:], len(row)) - 1
    bounds = np.stack([spans[first, 0], spans[last, 1]], axis=1)
    return first, Ragged.from_lengths(bounds, np.bincount(row[first], minlength=len(tokens.ids)))


def labelled_words(
    texts: Sequence[str], spans: Ragged[np.int64], probabilities: NDArray[Any], labels: Sequence[str]
) -> list[list[Word]]:
    """Return the words of each text, with their `spans` (W, 2) and their most likely labels; `probabilities` (W, S)."""
    best = probabilities.argmax(1)
    words: list[list[Word]] = [[] for _ in texts]
    columns = (spans.row_numbers(), spans.values, best, probabilities.max(1))
    for row, (start, end), label, probability in zip(*(column.tolist() for column in columns), strict=True):
        words[row].append(Word(texts[row][start:end], start, end, labels[label], probability))
    return words


def bracket_labels(text: str, words: Sequence[Word], default: str) -> str:
    """Return `text` with the words whose label is not `default` written as [word|label]."""
    for word in reversed(words):
        if word.label != default:
            text = f"{text[: word.start]}[{word.text}|{word.label}]{text[word.end :]}"
    return text


@dataclass(frozen=True)
class TextPrediction:
    """Prediction for one text: labels, their probability, probabilities of all labels, and labelled words, if any.

    `labels` holds the most likely label or, if the metric of the model is a cost, the label with the least expected
    price; a multi-label model has all labels above their thresholds, and `probability` is the highest one. It is empty
    if the probability is below the minimum confidence. A text of nothing but whitespace has no label, and all
    probabilities are 0. `truncated` is true if the model reads only the beginning of the text.
    """

    labels: list[str]
    probability: float
    probabilities: dict[str, float]
    words: list[Word]
    truncated: bool = False

    @property
    def label(self) -> str:
        """Labels of the text, separated by commas."""
        return ", ".join(self.labels)


class BasePredictor(ABC):
    """Predictor with labels (C), and their thresholds (C) if a text may have several (`multi`).

    `prices` (C, C) of gold and predicted labels choose the label with the least expected price. `hierarchy` is the
    separator of levels in the labels, if they have levels.
    A text with more than `room` tokens is truncated. `default_word_label` is the label of a word that has no other one.
    `encoder` gives the tokens of texts, whose `language` is zh or en. In a table, the `text_columns`, joined by `join`,
    are the text. Raises ParameterError for a `min_confidence`
    outside [0, 1], or with `multi`.
    """

    encoder: TextEncoder
    language: str
    text_columns: list[str]
    join: str
    room: int
    default_word_label: str = ""

    def __init__(
        self,
        folder: Path,
        labels: list[str],
        thresholds: list[float],
        *,
        multi: bool,
        min_confidence: float,
        prices: Prices | None = None,
        hierarchy: str = "",
    ) -> None:
        self.folder, self.labels, self.thresholds, self.multi, self.prices = folder, labels, thresholds, multi, prices
        self.min_confidence, self.hierarchy = min_confidence, hierarchy
        self._check_min_confidence()

    def probabilities(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return the probabilities (N, C) of `texts`; columns are in the order of the labels.

        Raises ParameterError for a single string instead of several, and for a text that is not a string.
        """
        listed = list_texts(texts, self.join)
        return self._probabilities(listed) if listed else np.zeros((0, len(self.labels)), dtype=np.float32)

    def predict(self, texts: Iterable[str], *, level: int | None = None) -> list[TextPrediction]:
        """Return one prediction per text; word positions refer to the text as given.

        A `level` of the labels, 1 for the top one, has a label for all labels below it, whose probabilities are added.
        Raises ParameterError as `probabilities` does, and for a level that the labels do not have.
        """
        names = None if level is None else self._names_of(level)
        listed = list_texts(texts, self.join)
        found = iter(self._predict(filled) if (filled := list(filter(strip, listed))) else [])
        nothing = TextPrediction([], 0.0, dict.fromkeys(self.labels, 0.0), [])
        answers = [next(found) if strip(text) else nothing for text in listed]
        return answers if names is None else [self._on_level(answer, names) for answer in answers]

    def explain(
        self, texts: Iterable[str], *, method: str = "auto", label: str | None = None, faithfulness: bool = False
    ) -> list[Explanation]:
        """Return how much the words of each text speak for `label`, by default its most probable one.

        `method` is weights, attention, gradients or occlusion; auto chooses by the kind of the model. With
        `faithfulness`, each explanation is tested by predictions for the text without some of its words. Raises
        ParameterError for a label or method that the model does not have, and as `probabilities` does.
        """
        # imported by name: a stage that predicts does not depend on the code of explanations
        module = import_module("epigram.inference.explanations.explain")
        found: list[Explanation] = module.explain(self, texts, method=method, label=label, faithfulness=faithfulness)
        return found

    @cached_property
    def neighbors(self) -> Any:
        """The training texts that were saved with the model, as `explain` searches them; None if there are none."""
        return import_module("epigram.inference.explanations.neighbors").read_neighbors(self)

    def choose(self, probabilities: NDArray[np.float32]) -> Ints:
        """Return the place of the label that probabilities (..., C) choose, of several labels the most probable one."""
        return choose_labels(probabilities, self.prices)

    def record(self, answer: TextPrediction) -> dict[str, Any]:
        """Return a prediction as JSON values: `label`, None without one, or `labels`, and probabilities and words."""
        found = {"labels": answer.labels} if self.multi else {"label": answer.label if answer.labels else None}
        words = {"words": [asdict(word) for word in answer.words]} if answer.words else {}
        return {**found, "probabilities": answer.probabilities, **words}

    @abstractmethod
    def embed(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return the vectors (N, D) of `texts` in the model's encoder, of length 1: their products are cosines.

        A vector is the mean of the states of the last layer. An ensemble has the vectors of the member with the
        largest weight among its members with an encoder. Raises ParameterError for a model without an encoder, for an
        exported one, and as `probabilities` does.
        """

    @abstractmethod
    def _probabilities(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the probabilities (N, C) of one or more texts."""

    @abstractmethod
    def _predict(self, texts: list[str]) -> list[TextPrediction]:
        """Return the predictions for one or more texts."""

    def _prediction(self, row: NDArray[np.float32], words: list[Word], truncated: bool) -> TextPrediction:
        """Return the prediction for a text with the probabilities `row` (C,)."""
        place = int(self.choose(row))
        labels, probability = [self.labels[place]], float(row[place])
        if self.multi:
            labels = [self.labels[c] for c in np.flatnonzero(row > np.array(self.thresholds, row.dtype))]
        elif probability < self.min_confidence:
            labels = []
        probabilities = dict(zip(self.labels, map(float, row), strict=True))
        return TextPrediction(labels, probability, probabilities, words, truncated)

    def _names_of(self, level: int) -> dict[str, str]:
        """Return the name of each label on a level. Raises ParameterError for a level that the labels do not have."""
        if not self.hierarchy:
            raise ParameterError(
                f"{self.folder} knows no levels of its labels; train it with their separator (hierarchy, --hierarchy)"
            )
        return level_names(self.labels, self.hierarchy, level)

    def _on_level(self, answer: TextPrediction, names: Mapping[str, str]) -> TextPrediction:
        """Return the prediction on a level, where each label has the name in `names`.

        The probability of a name is the sum of its labels' probabilities. If a text may have several labels, it is the
        highest one, and the predicted labels give the names.
        """
        found = dict.fromkeys(names.values(), 0.0)
        for label, name in names.items():
            more = answer.probabilities[label]
            found[name] = max(found[name], more) if self.multi else min(1.0, found[name] + more)
        if self.multi:
            return replace(answer, labels=[*dict.fromkeys(names[each] for each in answer.labels)], probabilities=found)
        best = max(found, key=lambda name: found[name])
        sure = any(found.values()) and found[best] >= self.min_confidence
        return replace(answer, labels=[best] if sure else [], probability=found[best], probabilities=found)

    def _check_min_confidence(self) -> None:
        if not 0.0 <= self.min_confidence <= 1.0:
            raise ParameterError(f"the minimum confidence is {self.min_confidence}; expected a number from 0 to 1")
        if self.min_confidence > 0.0 and self.multi:
            raise ParameterError(
                f"{self.folder} gives a text any number of labels, each with its own threshold; remove the "
                "minimum confidence"
            )


def list_texts(texts: object, join: str = " ") -> list[str]:
    """Return the strings of an iterable as a list; a tuple has the values of several text columns, which are joined.

    Raises ParameterError for a single string, for what is no iterable, for a mapping or a table, whose iteration gives
    names instead of texts, and for a text that is not a string.
    """
    kind = type(texts).__name__
    if isinstance(texts, str | bytes):
        raise ParameterError(f"expected a list of texts, found a single {kind}; pass a list: [text]")
    if not isinstance(texts, Iterable) or isinstance(texts, Mapping) or hasattr(texts, "columns"):
        raise ParameterError(f"expected a list of texts, found {kind}; pass a list, or one column of a table")
    listed = [join.join(map(str, text)) if isinstance(text, tuple) else text for text in texts]
    for position, text in enumerate(listed):
        if not isinstance(text, str):
            raise ParameterError(
                f"texts[{position}] has the type {type(text).__name__}; expected str: replace it, or leave it out"
            )
    return listed
