"""The ensemble of a run on data with labels of words: all stages, and the words that the saved ensemble labels.

The members read different tokens, words and parts of words, and one reads only seven words of a text.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.core.errors import DataError
from epigram.core.files import sha256, write_json
from epigram.evaluation.ensemble_record import EnsembleRecord
from epigram.evaluation.results import read_evaluation
from epigram.inference.open_predictor import open_predictor
from epigram.inference.predictor import Predictor
from epigram.models import ensemble
from epigram.models.ensemble_config import WordSettings
from tests.support.bad_input import Workshop
from tests.support.word_ensembles import ROOM, finished

ENSEMBLE, MODEL = Path("data/ensemble"), Path("data/ensemble/seed-0")
LONG = "today some coin people under canvas goal city many coin"  # the last three words are read by one member alone
TEXTS = ["  today  coin under", "canvas", "", "city goal many", LONG]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return finished(tmp_path_factory.mktemp("words"))


def given(member: Predictor, text: str) -> list[np.ndarray]:
    """Return what a member gives each word between blanks: that of the first token that begins in it, or zeros."""
    predicted, tokens, _ = member.run_with_positions([text])
    assert tokens is not None
    assert predicted.tokens is not None
    read = dict[int, np.ndarray]()
    begins = [n for n in range(len(text)) if text[n] != " " and (n == 0 or text[n - 1] == " ")]
    for (start, _), p in zip(tokens.spans.tolist(), predicted.tokens.astype(np.float64), strict=False):
        word = max(n for n in range(len(begins)) if begins[n] <= start)
        read.setdefault(word, p)
    return [read.get(n, np.zeros(predicted.tokens.shape[1])) for n in range(len(begins))]


def averaged(folder: Path, text: str) -> list[np.ndarray]:
    """Return the probabilities of the words of a text, computed word by word in double precision."""
    saved = ensemble.load(folder)
    assert saved.words is not None
    found = {name: given(Predictor(saved.member(name)), text) for name in saved.words.members}
    mixed = []
    for each in zip(*found.values(), strict=True):
        total, share = np.zeros(len(saved.words.labels)), 0.0
        for name, p in zip(found, each, strict=True):
            if p.any():
                powers = p ** (1 / saved.words.members[name])
                total, share = total + saved.weights[name] * powers / powers.sum(), share + saved.weights[name]
        mean = (total / share) ** (1 / saved.words.temperature)
        mixed.append(mean / mean.sum())
    return mixed


def check_words(folder: Path) -> None:
    """Check that the ensemble in `folder` labels words as the average over its members says.

    Each text is predicted alone, as `averaged` does: bfloat16 rounds differently in other batches.
    """
    saved, predictor = ensemble.load(folder), open_predictor(folder)
    assert saved.words is not None
    for text in filter(None, TEXTS):
        (answer,) = predictor.predict([text])
        expected = averaged(folder, text)
        assert [word.text for word in answer.words] == text.split()
        assert [text[word.start : word.end] for word in answer.words] == text.split()
        assert [word.label for word in answer.words] == [saved.words.labels[p.argmax()] for p in expected]
        np.testing.assert_allclose([word.probability for word in answer.words], [p.max() for p in expected], atol=1e-5)


def test_the_words_of_the_saved_ensemble_are_the_average_over_its_members(shop: Workshop) -> None:
    check_words(shop.root / MODEL)


def test_a_text_without_words_is_answered_as_by_a_member(shop: Workshop) -> None:
    folder = shop.root / MODEL
    (answer,) = open_predictor(folder).predict([""])
    (alone,) = Predictor(folder / "members/words").predict([""])
    assert [(word.text, word.start, word.end) for word in answer.words] == [
        (word.text, word.start, word.end) for word in alone.words
    ]


def test_the_words_of_the_test_texts_are_those_that_were_scored(shop: Workshop) -> None:
    known = read_evaluation(shop.root / ENSEMBLE).predictions
    texts = pl.read_parquet(shop.root / "data/validated/test.parquet")
    found = pl.DataFrame({"row": known.test_rows}).join(texts, on="row", how="left")["text"].to_list()
    predictor = open_predictor(shop.root / MODEL)
    words = [word for answer in predictor.predict(found) for word in answer.words]
    names = read_evaluation(shop.root / ENSEMBLE).metrics.tokens
    assert names is not None
    assert known.test_word_probabilities is not None
    assert known.test_word_predictions is not None
    scored = known.test_word_probabilities[0].max(-1)
    np.testing.assert_allclose([word.probability for word in words], scored, atol=5e-3)
    clear = scored > 0.51  # evaluation and prediction may differ in batch and precision
    labels = np.array([names.labels.index(word.label) for word in words])
    np.testing.assert_array_equal(labels[clear], known.test_word_predictions[0][clear])
    assert any(word.label != predictor.default_word_label for word in words)


def test_the_stored_probabilities_of_words_are_those_of_the_model(shop: Workshop) -> None:
    """In half precision; the words after the first seven have none, and the default label."""
    known = read_evaluation(shop.root / "data/evaluated/words").predictions
    assert known.dev_word_probabilities is not None
    assert known.dev_word_predictions is not None
    assert known.dev_word_offsets is not None
    stored, said = known.dev_word_probabilities[0], known.dev_word_predictions[0]
    assert stored.dtype == np.float16
    position = np.arange(len(said)) - np.repeat(known.dev_word_offsets[:-1], np.diff(known.dev_word_offsets))
    np.testing.assert_array_equal(stored.any(-1), position < ROOM)
    assert not said[position >= ROOM].any()
    assert (stored.argmax(-1) == said).mean() > 0.99
    np.testing.assert_allclose(stored[position < ROOM].sum(-1), 1, atol=2e-3)


def test_members_are_systems_that_label_words_and_the_report_shows_them(shop: Workshop) -> None:
    record = EnsembleRecord.read(shop.root / ENSEMBLE)
    assert {member.system for member in record.members} == {"words", "pieces"}
    report = shop.root / "data/report"
    rows = {row["system"]: row for row in json.loads((report / "summary.json").read_text())["rows"]}
    assert rows["ensemble"]["token_f1"] == pytest.approx(rows["ensemble"]["test_score"])
    assert rows["ensemble"]["flops"] == pytest.approx(sum(member.flops for member in record.members))
    page = (report / "report.html").read_text()
    assert "Members of the ensemble" in page and all(f"#system-{member.system}" in page for member in record.members)


def test_the_command_marks_the_words(shop: Workshop) -> None:
    answer = open_predictor(shop.root / MODEL).predict([LONG])[0]
    marked = " ".join(word.text if word.label == "O" else f"[{word.text}|{word.label}]" for word in answer.words)
    assert "[" in marked
    shown = shop.epigram("predict", shop.root / MODEL, LONG)
    assert shown.out.rstrip("\n").endswith(marked)


def test_members_that_label_no_words_count_for_texts_alone(shop: Workshop, tmp_path: Path) -> None:
    saved = ensemble.load(shop.root / MODEL)
    folders = {name: shop.root / f"data/pruned/{name}/seed-0" for name in ("counts", "pieces", "words")}
    weights = {"counts": 0.5, "pieces": 0.2, "words": 0.3}
    ensemble.save(
        replace(saved, folder=tmp_path / "three", weights=weights), ensemble.copy_members(folders), {"data": "d" * 64}
    )
    check_words(tmp_path / "three")
    ensemble.save(
        replace(saved, folder=tmp_path / "texts", weights=weights, words=None),
        ensemble.copy_members(folders),
        {"data": "d" * 64},
    )
    assert [answer.words for answer in open_predictor(tmp_path / "texts").predict(TEXTS)] == [[]] * len(TEXTS)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": []},
        {"temperature": 0.0},
        {"members": {}},
        {"members": {"other": 1.0}},
        {"members": {"words": -1.0}},
        {"more": 1},
    ],
    ids=str,
)
def test_values_that_no_ensemble_of_words_has_are_refused(
    change: dict[str, Any], shop: Workshop, tmp_path: Path
) -> None:
    saved = ensemble.load(shop.root / MODEL)
    copied = replace(saved, folder=tmp_path / "changed")
    ensemble.save(copied, ensemble.copy_members({name: saved.member(name) for name in saved.weights}))
    path = copied.folder / "config.json"
    config = json.loads(path.read_text())
    write_json(path, config | {"words": config["words"] | change})
    listed = json.loads((copied.folder / "manifest.json").read_text())
    listed["sha256"]["config.json"] = sha256(path)
    write_json(copied.folder / "manifest.json", listed)
    with pytest.raises(DataError, match="does not describe an ensemble of this version"):
        open_predictor(copied.folder)


def test_members_with_other_word_labels_are_refused(shop: Workshop, tmp_path: Path) -> None:
    saved = ensemble.load(shop.root / MODEL)
    assert saved.words is not None
    words = WordSettings(labels=saved.words.labels[::-1], temperature=1.0, members=saved.words.members)
    ensemble.save(
        replace(saved, folder=tmp_path / "other", words=words),
        ensemble.copy_members({name: saved.member(name) for name in saved.weights}),
    )
    with pytest.raises(DataError, match="does not have the word labels of the ensemble"):
        open_predictor(tmp_path / "other")
