"""Suggested texts as tasks of Label Studio, with the predictions of the model as pre-annotations."""

from __future__ import annotations

from typing import Any

from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction, Word
from epigram.inference.suggestions import Suggestions
from epigram.inference.table_writer import as_columns

FROM_NAME, TO_NAME = "label", "text"  # names in the labelling interface


def label_studio_tasks(found: Suggestions, predictor: BasePredictor) -> list[dict[str, Any]]:
    """Return a task for each suggested text: its row, the text under the key text, and the prediction.

    The labelling interface needs <Text name="text" value="$text"/>, and <Choices name="label" toName="text"> for labels
    of texts or <Labels name="label" toName="text"> for labels of words.
    """
    rows = as_columns(found.rows.drop("prediction", "probability")).to_dicts()
    version = predictor.folder.resolve().name
    return [
        {
            "data": {name: _plain(value) for name, value in row.items()} | {TO_NAME: text},
            "predictions": [
                {
                    "model_version": version,
                    "score": answer.probability,
                    "result": _results(text, answer, predictor.default_word_label),
                }
            ],
        }
        for row, text, answer in zip(rows, found.texts, found.answers, strict=True)
    ]


def _plain(value: Any) -> Any:
    """Return a value that JSON has, or its text."""
    return value if value is None or isinstance(value, (str, int, float, list, dict)) else str(value)


def _results(text: str, answer: TextPrediction, default: str) -> list[dict[str, Any]]:
    """Return the labels of the text as choices, or the marked parts of a text whose words are labelled."""
    place = {"from_name": FROM_NAME, "to_name": TO_NAME}
    if not answer.words:
        choices = {"type": "choices", "value": {"choices": answer.labels}}
        return [place | choices] if answer.labels else []
    return [
        place
        | {
            "type": "labels",
            "value": {"start": start, "end": end, "text": text[start:end], "labels": [label]},
        }
        for start, end, label in _parts(text, answer.words, default)
    ]


def _parts(text: str, words: list[Word], default: str) -> list[tuple[int, int, str]]:
    """Return start, end and label of each run of words with the same label, if only whitespace is between them."""
    parts: list[tuple[int, int, str]] = []
    for word in words:
        if word.label == default:
            continue
        if parts and parts[-1][2] == word.label and not text[parts[-1][1] : word.start].strip():
            parts[-1] = (parts[-1][0], word.end, word.label)
        else:
            parts.append((word.start, word.end, word.label))
    return parts
