"""Saved and exported linear SVMs with any settings give the probabilities of the fitted model."""

from __future__ import annotations

from collections import Counter
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from epigram.core.errors import DataError
from epigram.core.files import read_json
from epigram.inference.onnx.export import PACKAGES, export
from epigram.inference.predictors.predictor import Predictor
from epigram.inference.predictors.runtimes import read_ngrams
from epigram.nn.layers.ngrams import SPELLED, Counted
from tests.support.linear_models import SEVERAL, TRAIN, svm

for package in PACKAGES:
    pytest.importorskip(package, reason="requires the extra onnx")

TEXTS = ["soup soup soup large room", "nice clerk", "room room", "unseen"]


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("settings", [{"sublinear": False}, {"weighting": "naive_bayes", "orders": [1, 2, 3]}])
def test_an_exported_svm_has_the_settings_of_the_fit(multi: bool, settings: dict[str, Any], tmp_path: Path) -> None:
    rows = SEVERAL["en"] if multi else TRAIN["en"]
    model, out = svm(tmp_path, "en", rows, multi=multi, **settings), tmp_path / "out"
    export(model, out)
    wanted = Predictor(model).probabilities(TEXTS)
    np.testing.assert_allclose(Predictor(out).probabilities(TEXTS), wanted, atol=1e-5)
    (tmp_path / "plain").mkdir()
    plain = Predictor(svm(tmp_path / "plain", "en", rows, multi=multi)).probabilities(TEXTS)
    assert not np.allclose(wanted, plain, atol=1e-3)


def by_hand(folder: Path, text: str) -> Any:
    """Return the probabilities of a text of lower-case words, computed from the exported files alone."""
    import onnxruntime

    stored = read_json(folder / "ngrams.json")
    alphabet = read_json(folder / "config.json")["frame"]["characters"]
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    mark = stored["alphabet"]
    spelled = [[mark, *(alphabet.index(c) + 2 if c in alphabet else 1 for c in word), mark] for word in text.split()]
    listed: dict[tuple[str, tuple[int, ...]], int] = {}
    for kind in ("characters", "ngrams"):
        for ngram in chain(*stored[kind].values()):
            listed[kind, tuple(ngram)] = len(listed)
    counts = Counter[int]()
    for kind, parts in (("characters", spelled), ("ngrams", [ids])):
        for part, n in product(parts, map(int, stored[kind])):
            found = [(kind, tuple(part[i : i + n])) for i in range(len(part) - n + 1)]
            counts.update(listed[each] for each in found if each in listed)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    given = {"ngrams": np.array([list(counts)]), "counts": np.array([list(counts.values())])}
    (answer,) = session.run(["probabilities"], given)
    return answer[0]


@pytest.mark.parametrize("multi", [False, True])
def test_an_svm_with_characters_reads_words_that_it_has_not_seen(multi: bool, tmp_path: Path) -> None:
    rows, texts = (SEVERAL["en"] if multi else TRAIN["en"]), ["soups nice soup", "roomy xroom", "clerks", "?", "soup"]
    model = svm(tmp_path, "en", rows, multi=multi, alphabet="soupermlagc", characters=[2, 3, 4])
    out = tmp_path / "out"
    export(model, out)
    wanted = Predictor(model).probabilities(texts)
    np.testing.assert_allclose(Predictor(out).probabilities(texts), wanted, atol=1e-5)
    np.testing.assert_allclose([by_hand(out, text) for text in texts if text != "?"], wanted[[0, 1, 2, 4]], atol=1e-5)
    assert wanted[:3].argmax(1).tolist() == [0, 1, 2]  # food, room, staff


def test_a_list_with_n_grams_of_characters_is_read_as_the_keys_of_the_model(tmp_path: Path) -> None:
    stored = (
        '{"vocabulary": 9, "alphabet": 3, "characters": {"1": [[2]], "2": [[1, 2], [3, 1]]}, "ngrams": {"1": [[0]]}}'
    )
    (tmp_path / "ngrams.json").write_text(stored)
    keys, counted = read_ngrams(tmp_path / "ngrams.json")
    assert keys.tolist() == [SPELLED + 2, SPELLED + 1 * 4 + 2, SPELLED + 3 * 4 + 1, 1]  # to the base of 3 + 1
    assert counted == Counted(9, (1, 1), 3, (1, 2))


@pytest.mark.parametrize("wrong", ["[[0, 1]]", "[[1, 4]]", "[[1, 2], [1, 1]]", "[[1]]"])
def test_n_grams_of_characters_that_export_would_not_write_are_refused(wrong: str, tmp_path: Path) -> None:
    stored = f'{{"vocabulary": 9, "alphabet": 3, "characters": {{"2": {wrong}}}, "ngrams": {{"1": [[0]]}}}}'
    (tmp_path / "ngrams.json").write_text(stored)
    with pytest.raises(DataError, match=r"ngrams\.json is not a valid list of n-grams"):
        read_ngrams(tmp_path / "ngrams.json")


def test_a_saved_svm_has_no_setting_that_is_auto(tmp_path: Path) -> None:
    auto = dict.fromkeys(("orders", "sublinear", "weighting", "penalty"), "auto")
    saved = read_json(svm(tmp_path, "en", TRAIN["en"], **auto) / "config.json")["parts"]["model"]
    assert "auto" not in saved.values()
    assert saved["orders"][0] == 1
