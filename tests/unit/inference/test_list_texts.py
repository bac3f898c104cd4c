"""Tests of the texts that a predictor accepts: any iterable of strings, and nothing that would be read in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import epigram
from epigram.core.errors import ParameterError
from epigram.inference.predictors.base_predictor import BasePredictor
from tests.support.linear_models import TRAIN, ensemble_of_svms, svm

TEXTS = ["nice soup", "large room", ""]
FORMS: dict[str, Callable[[], Any]] = {
    "tuple": lambda: tuple(TEXTS),
    "generator": lambda: (text for text in TEXTS),
    "array of strings": lambda: np.array(TEXTS),
    "array of objects": lambda: np.array(TEXTS, dtype=object),
    "column": lambda: pl.Series(TEXTS),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "string": ("nice soup", r"expected a list of texts, found a single str; pass a list: \[text\]"),
    "bytes": (b"nice soup", "found a single bytes"),
    "none": (None, "expected a list of texts, found NoneType"),
    "mapping": ({"nice soup": 1}, "found dict; pass a list, or one column of a table"),
    "table": (pl.DataFrame({"text": TEXTS}), "found DataFrame; pass a list, or one column of a table"),
    "missing text": (["nice soup", None], r"texts\[1\] has the type NoneType; expected str"),
    "not a number": (np.array(["nice soup", "", float("nan")], dtype=object), r"texts\[2\] has the type float"),
    "rows": ([["nice soup"]], r"texts\[0\] has the type list"),
}


@pytest.fixture(scope="module", params=["single", "ensemble"])
def predictor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BasePredictor:
    folder = tmp_path_factory.mktemp(request.param)
    return epigram.load(svm(folder, "en", TRAIN["en"]) if request.param == "single" else ensemble_of_svms(folder))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_texts_gives_the_predictions_of_the_list(form: str, predictor: BasePredictor) -> None:
    expected = predictor.predict(TEXTS)
    assert [each.label for each in expected[:2]] == ["food", "room"]
    assert predictor.predict(FORMS[form]()) == expected
    np.testing.assert_array_equal(predictor.probabilities(FORMS[form]()), predictor.probabilities(TEXTS))


def test_an_open_file_has_one_text_per_line(predictor: BasePredictor, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("nice soup\nlarge room\n\n")
    with (tmp_path / "texts.txt").open() as file:
        assert predictor.predict(file) == predictor.predict(TEXTS)


def test_no_texts_have_no_predictions(predictor: BasePredictor) -> None:
    for none in ([], (text for text in TEXTS if text == "absent"), np.array([], dtype=object)):
        assert predictor.predict(none) == []
    assert predictor.probabilities(iter(())).shape == (0, 3)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_list_of_texts_is_refused(name: str, predictor: BasePredictor) -> None:
    texts, said = REFUSED[name]
    for method in (predictor.predict, predictor.probabilities):
        with pytest.raises(ParameterError, match=said):
            method(texts)


def test_attention_maps_refuse_a_single_string_before_they_read_the_model(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="found a single str"):
        epigram.attention_maps(tmp_path / "absent", "nice soup")
