"""What MLflow's flavour pyfunc gets from a saved model: which columns are its text, and which columns come out."""

from __future__ import annotations

from typing import Any, cast

import pytest

from epigram.core.errors import ParameterError
from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction, Word
from epigram.inference.pyfunc import PyfuncModel

pd = pytest.importorskip("pandas", reason="requires the extra mlflow")


class Echo:
    """Predictor whose label for a text is the text; with `multi` or `words`, several labels or labelled words."""

    text_columns, join, default_word_label = ["title", "body"], " | ", "O"

    def __init__(self, *, multi: bool = False, words: bool = False) -> None:
        self.multi, self._words = multi, words

    def predict(self, texts: list[str], *, level: int | None = None) -> list[TextPrediction]:
        words = [Word("soup", 0, 4, "DISH", 0.75), Word("of", 5, 7, "O", 0.5)] if self._words else []
        scores = {"room": 0.125, "food": 0.875, "staff": 0.625}
        return [TextPrediction(["food", "staff"] if self.multi else [text], 0.875, scores, words) for text in texts]


def answered(model_input: Any, **kind: bool) -> dict[str, list[Any]]:
    return PyfuncModel(cast("BasePredictor", Echo(**kind))).predict(model_input).to_dict("list")


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ({"body": ["b", None], "title": ["a", "c"], "text": ["x", "y"]}, ["a | b", "c | "]),  # the columns of training
        ({"title": ["a", "c"], "text": ["x", None]}, ["x", ""]),  # one of them is missing
        ({"title": [1, 2.5], "body": ["b", "d"]}, ["1.0 | b", "2.5 | d"]),
    ],
)
def test_a_frame_has_the_columns_of_the_training_or_else_a_column_text(given: Any, texts: list[str]) -> None:
    assert answered(pd.DataFrame(given)) == {"label": texts, "probability": [0.875] * len(texts)}


def test_a_list_a_series_and_a_string_are_texts() -> None:
    assert answered(["a", "b"])["label"] == answered(pd.Series(["a", "b"]))["label"] == ["a", "b"]
    assert answered("one text")["label"] == ["one text"]


def test_a_frame_without_any_text_column_is_refused() -> None:
    with pytest.raises(ParameterError, match="the data frame has no column 'text'; expected one, or title, body"):
        answered(pd.DataFrame({"title": ["a"]}))


def test_several_labels_have_a_probability_each_and_words_have_their_places() -> None:
    dish = {"text": "soup", "start": 0, "end": 4, "label": "DISH", "probability": 0.75}
    assert answered(["a"], multi=True) == {"labels": [["food", "staff"]], "probabilities": [[0.875, 0.625]]}
    assert answered(["a"], words=True) == {"label": ["a"], "probability": [0.875], "words": [[dish]]}
