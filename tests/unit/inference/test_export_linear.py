"""Tests of an exported linear SVM: a JSON list of n-grams and an ONNX graph, usable without epigram."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from epigram.core.errors import DataError, ParameterError
from epigram.inference.onnx.export import PACKAGES, export
from epigram.inference.predictors.predictor import Predictor
from epigram.inference.predictors.runtimes import GraphModel, read_ngrams
from epigram.models.linear_svm import LinearSvm
from epigram.nn.layers.ngrams import ngram_keys
from tests.parity.reference.batches import padded_ids
from tests.support.linear_models import SEVERAL, TRAIN, svm
from tests.support.model_seeds import change_ngrams

for package in PACKAGES:
    pytest.importorskip(package, reason="requires the extra onnx")

NEW = {
    "zh": [("饭菜好吃", "food"), ("床大", "room"), ("人好好", "staff"), ("", None), ("不在表", None)],
    "en": [
        ("soup", "food"),
        ("large large room", "room"),
        ("clerk nice unseen", "staff"),
        ("", None),
        ("unseen", None),
    ],
}
FITTED = {"zh": "房大饭好吃", "en": "room soup"}


def by_hand(folder: Path, text: str) -> NDArray[np.float32]:
    """Return the probabilities computed from the exported files alone: tokenizer, n-gram counts and graph."""
    import onnxruntime

    stored = json.loads((folder / "ngrams.json").read_text())["ngrams"]
    listed = {tuple(ngram): row for row, ngram in enumerate(chain(*stored.values()))}
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids or [1]
    grams = [tuple(ids[i : i + int(n)]) for n in stored for i in range(len(ids) - int(n) + 1)]
    counts = Counter(listed[gram] for gram in grams if gram in listed) or {0: 0}
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    given = {"ngrams": np.array([list(counts)]), "counts": np.array([list(counts.values())])}
    (found,) = session.run(["probabilities"], given)
    return found[0]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_files_alone_give_the_model_s_probabilities_and_the_right_labels(language: str, tmp_path: Path) -> None:
    model, out = svm(tmp_path, language, TRAIN[language]), tmp_path / "out"
    export(model, out)
    texts = [text for text, _ in NEW[language]]
    wanted, found = Predictor(model).probabilities(texts), Predictor(out).probabilities(texts)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_allclose([by_hand(out, text) for text in texts], wanted, atol=1e-5)
    for (_, label), answer in zip(NEW[language], Predictor(out).predict(texts), strict=True):
        assert label in {answer.label, None}


@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_text_may_have_several_labels(language: str, tmp_path: Path) -> None:
    model, out = svm(tmp_path, language, SEVERAL[language], multi=True), tmp_path / "out"
    export(model, out)
    texts = [text for text, _ in SEVERAL[language][:5]] + [FITTED[language]]
    wanted = Predictor(model).probabilities(texts)
    np.testing.assert_allclose(Predictor(out).probabilities(texts), wanted, atol=1e-5)
    np.testing.assert_allclose([by_hand(out, text) for text in texts], wanted, atol=1e-5)
    said = [answer.label for answer in Predictor(out).predict(texts)]
    assert said == [label for _, label in SEVERAL[language][:5]] + ["food, room"]


def test_a_graph_predicts_its_batches_in_the_callers_thread_and_the_model_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime has threads of its own, which several callers at once would share."""
    model, out = svm(tmp_path, "en", TRAIN["en"]), tmp_path / "out"
    export(model, out)
    texts, threads = [text for text, _ in TRAIN["en"]] * 20, {LinearSvm: set[int](), GraphModel: set[int]()}

    def recorded(kind: Any, name: str) -> Any:
        original = getattr(kind, name)

        def call(*given: Any) -> Any:
            if kind is LinearSvm and threading.get_ident() not in threads[kind]:
                together.wait(30.0)  # for the other thread: a pool gives an idle one the next share
            threads[kind].add(threading.get_ident())
            return original(*given)

        return call

    monkeypatch.setattr(LinearSvm, "forward", recorded(LinearSvm, "forward"))
    monkeypatch.setattr(GraphModel, "__call__", recorded(GraphModel, "__call__"))
    before, together = torch.get_num_threads(), threading.Barrier(2)
    torch.set_num_threads(2)
    try:
        np.testing.assert_allclose(
            Predictor(out).probabilities(texts), Predictor(model).probabilities(texts), atol=1e-5
        )
    finally:
        torch.set_num_threads(before)
    assert threads[GraphModel] == {threading.get_ident()}
    assert len(threads[LinearSvm]) == 2 and threading.get_ident() not in threads[LinearSvm]


def test_the_n_grams_are_read_as_the_keys_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "ngrams.json").write_text('{"vocabulary": 9, "ngrams": {"1": [], "2": [[0, 8], [3, 0]]}}')
    keys, (vocabulary, orders, *_) = read_ngrams(tmp_path / "ngrams.json")
    wanted, _ = ngram_keys(padded_ids([[0, 8], [3, 0]]), 9, (2, 2))
    assert (keys.tolist(), vocabulary, orders) == (wanted.tolist(), 9, (1, 2))
    assert wanted.tolist() == [19, 41]  # 1·10 + 9, 4·10 + 1


@pytest.mark.parametrize(
    "stored",
    [
        '{"vocabulary": 9, "ngrams": {"1": [[9]]}}',
        '{"vocabulary": 9, "ngrams": {"1": [[-1]]}}',
        '{"vocabulary": 9, "ngrams": {"1": [[2], [1]]}}',
        '{"vocabulary": 9, "ngrams": {"1": [[1], [1]]}}',
        '{"vocabulary": 9, "ngrams": {"1": [[1.0]]}}',
        '{"vocabulary": 9, "ngrams": {"1": [[1, 2]]}}',
        '{"vocabulary": 9, "ngrams": {"2": [[1, 2], [3]]}}',
        '{"vocabulary": 9, "ngrams": {"1": [[1]], "3": [[1, 2, 3]]}}',
        '{"vocabulary": 9, "ngrams": {"40": []}}',
        '{"vocabulary": "9", "ngrams": {"1": [[1]]}}',
        '{"vocabulary": 9, "ngrams": {}}',
        '{"vocabulary": 9, "ngrams": [[1]]}',
        '{"vocabulary": 9}',
        "[]",
    ],
)
def test_n_grams_that_export_would_not_write_are_refused(stored: str, tmp_path: Path) -> None:
    (tmp_path / "ngrams.json").write_text(stored)
    with pytest.raises(DataError, match=r"ngrams\.json is not a valid list of n-grams; export the model again"):
        read_ngrams(tmp_path / "ngrams.json")


@pytest.mark.parametrize("more", [False, True])
def test_n_grams_of_another_number_than_the_graph_s_are_refused(more: bool, tmp_path: Path) -> None:
    model, out = svm(tmp_path, "en", TRAIN["en"]), tmp_path / "out"
    export(model, out)
    change_ngrams(out, more=more)
    with pytest.raises(
        DataError, match=r"ngrams\.json does not have the n-grams of model\.onnx; export the model again"
    ):
        Predictor(out)


def test_the_n_grams_are_checked_like_any_file_and_eight_bits_are_refused(tmp_path: Path) -> None:
    model, out = svm(tmp_path, "en", TRAIN["en"]), tmp_path / "out"
    with pytest.raises(ParameterError, match="svm has none; export without --int8"):
        export(model, out, int8=True)
    export(model, out)
    whole = tmp_path / "whole"
    shutil.copytree(out, whole)
    (out / "ngrams.json").write_text((whole / "ngrams.json").read_text().replace("[5]", "[4]"))
    with pytest.raises(DataError, match=r"ngrams\.json was changed after the model was saved"):
        Predictor(out)
    assert "graph (ONNX, fp32)" in (whole / "README.md").read_text(encoding="utf-8")
