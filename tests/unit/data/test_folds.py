"""Tests of the folds of train: when there are any, which rows share one, and what the fold of a corpus contains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epigram.core.errors import DataError
from epigram.data.validation.row_index import DEV, NO_SPLIT, TEST, TRAIN, LabelCodes
from epigram.data.validation.splits import assign_folds, lacks_test, needs_folds
from epigram.text.dataset.text_matching import LOOSE, loose_text
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from tests.support.bad_input import ROWS, Workshop, csv

TEXTS = st.lists(
    st.tuples(st.text(st.sampled_from("abAB .好"), max_size=3), st.sampled_from("xyz")), min_size=12, max_size=60
)


def codes(train: int, **others: int) -> Any:
    return np.repeat(np.array([TRAIN, DEV, TEST], np.uint8), [train, others.get("dev", 0), others.get("test", 0)])


def labels_of(labels: list[Any]) -> LabelCodes:
    found = LabelCodes(len(labels))
    found.add(0, pl.Series(labels))
    return found


def folds_of(texts: list[str], labels: list[Any], folds: int = 5, *, split: Any = None, seed: int = 0) -> Any:
    frame = pl.DataFrame({"text": texts}).select(row=pl.int_range(pl.len(), dtype=pl.Int64), **{LOOSE: loose_text()})
    repeated = frame.filter(pl.col(LOOSE).is_duplicated())
    return assign_folds(codes(len(texts)) if split is None else split, labels_of(labels), repeated, folds, seed)


# When


@pytest.mark.parametrize(("rows", "needed"), [(2_994, True), (2_996, False), (100, True), (40_000, False)])
def test_a_new_dev_split_of_fewer_than_300_rows_becomes_folds(rows: int, needed: bool) -> None:
    assert needs_folds(codes(rows, test=7), 0.1) is needed


def test_the_share_of_dev_counts() -> None:
    assert not needs_folds(codes(1_000), 0.3)
    assert needs_folds(codes(1_000), 0.29)


def test_a_dev_split_of_the_source_is_used_however_small() -> None:
    assert not needs_folds(codes(100, dev=1), 0.1)


@pytest.mark.parametrize(
    ("rows", "test", "needed"),
    [
        (499, 0.1, True),
        (500, 0.1, False),  # 100 rows are a fifth
        (300, 0.33, True),
        (300, 0.334, False),  # the share that is asked for has 100 rows
        (20, 0.9, True),
        (40_000, 0.001, False),
    ],
)
def test_no_test_split_is_cut_of_few_rows(rows: int, test: float, needed: bool) -> None:
    assert lacks_test(codes(rows), test) is needed


def test_a_test_split_of_the_source_is_used_however_small() -> None:
    assert not lacks_test(codes(100, test=1), 0.1)


# Which rows


def test_folds_are_stratified_and_of_equal_size() -> None:
    labels = ["x"] * 25 + ["y"] * 10 + ["z"] * 5
    found = folds_of([f"text {n}" for n in range(40)], labels)
    for label, each in (("x", 5), ("y", 2), ("z", 1)):
        assert np.bincount(found[np.array(labels) == label], minlength=5).tolist() == [each] * 5


def test_folds_are_stratified_where_texts_repeat() -> None:
    """Each text occurs twice, and the rare label has five texts, one for each fold."""
    texts = [f"text {n}" for n in range(25)]
    labels = ["y" if n % 5 == 0 else "x" for n in range(25)]
    found = folds_of(texts * 2, labels * 2)
    for label, each in (("x", 8), ("y", 2)):
        assert np.bincount(found[np.array(labels * 2) == label], minlength=5).tolist() == [each] * 5


def test_the_rows_that_remain_of_several_labels_go_to_different_folds() -> None:
    """Three labels of six rows: the sixth row of each goes to a fold of its own, so no fold has eight rows."""
    found = folds_of([f"text {n}" for n in range(18)], list("xyz") * 6)
    assert sorted(np.bincount(found)) == [3, 3, 4, 4, 4]


@given(TEXTS)
def test_equal_texts_share_a_fold_and_every_row_has_one(rows: list[tuple[str, str]]) -> None:
    texts, labels = [text for text, _ in rows], [label for _, label in rows]
    keys = pl.DataFrame({"text": texts}).select(loose_text()).to_series().to_list()
    if len(set(keys)) < 3:
        return
    found = folds_of(texts, labels, 3)
    assert set(found.tolist()) == {0, 1, 2}
    assert len(set(zip(keys, found.tolist(), strict=True))) == len(set(keys))


def test_a_large_group_counts_with_its_rows() -> None:
    """Six copies of one text fill a fold, so that the other six texts go to the other two."""
    found = folds_of(["same"] * 6 + [f"text {n}" for n in range(6)], ["x"] * 12, 3)
    assert len(set(found[:6].tolist())) == 1
    assert found[0] not in found[6:]
    assert sorted(np.bincount(found)) == [3, 3, 6]


def test_each_fold_has_its_share_of_a_label_however_full_it_is() -> None:
    """Six copies of a text of label x fill a fold, and yet each fold has two of the six texts of label y."""
    found = folds_of(["same"] * 6 + [f"text {n}" for n in range(12)], ["x"] * 12 + ["y"] * 6, 3)
    assert np.bincount(found[12:], minlength=3).tolist() == [2, 2, 2]


def test_rows_of_other_splits_have_no_fold() -> None:
    split = codes(20, test=4)
    split[3] = NO_SPLIT
    found = folds_of([f"text {n}" for n in range(24)], ["x", "y"] * 12, split=split)
    assert (found >= 0).tolist() == (split == TRAIN).tolist()


def test_several_labels_are_stratified_by_the_rarest() -> None:
    labels = [["common", "rare"] if n % 4 == 0 else ["common"] for n in range(20)]
    found = folds_of([f"text {n}" for n in range(20)], labels)
    assert np.bincount(found[::4], minlength=5).tolist() == [1] * 5


def test_the_seed_changes_the_folds() -> None:
    texts = [f"text {n}" for n in range(40)]
    one, same, other = (folds_of(texts, ["x"] * 40, seed=seed) for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()


def test_too_few_texts_are_refused() -> None:
    with pytest.raises(DataError, match=r"train has 4 different texts; expected at least 5, .*validate\.folds"):
        folds_of(["a", "b", "c", "d", "d"], ["x"] * 5)


# The stage


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_validate_writes_folds_instead_of_dev(shop: Workshop) -> None:
    ended = shop.validated(csv(ROWS), folds=4)
    assert ended.code == 0, ended.err
    assert "cross-validation of 4 folds (seed 0)" in ended.out
    assert "dev has no row" not in ended.out
    assert shop.corpus()["rows"] == {"train": 60, "dev": 0, "test": 0}
    assert "the test scores are out of fold" in ended.out
    assert shop.corpus()["folds"] == 4
    corpus = ValidatedCorpus.read(shop.out)
    whole = corpus.frame("train", "row", "text", "label", "fold")
    assert sorted(whole["fold"].value_counts()["count"]) == [15] * 4
    for number in range(4):
        part = corpus.fold(number)
        dev, train = part.frame("dev", "row", "in_train"), part.frame("train", "row")
        assert dev["row"].to_list() == whole.filter(pl.col("fold") == number)["row"].to_list()
        assert train["row"].to_list() == whole.filter(pl.col("fold") != number)["row"].to_list()
        assert not dev["in_train"].any()
        assert (part.count("train"), part.count("dev")) == (train.height, dev.height)
        assert part.splits == ("train", "dev")


@pytest.mark.parametrize(
    ("setting", "source", "folds"), [(None, None, 5), (0, None, 0), (3, None, 3), (3, 2, 2), (0, 4, 4)]
)
def test_the_source_overrides_the_setting(shop: Workshop, setting: int | None, source: int | None, folds: int) -> None:
    shop.params(validate={} if setting is None else {"folds": setting})
    assert shop.validated(csv(ROWS), folds=source).code == 0
    assert shop.corpus()["folds"] == folds
    assert (shop.corpus()["rows"]["dev"] == 0) is (folds > 0)


@pytest.mark.parametrize("folds", [1, 11, -1, "five"])
def test_other_numbers_are_refused(shop: Workshop, folds: Any) -> None:
    shop.params(validate={"folds": folds})
    shop.validated(csv(ROWS), folds=None).refused(64, "validate.folds")


def test_a_source_with_dev_or_token_labels_has_no_folds(shop: Workshop) -> None:
    rows = [(text, label, "validation" if n % 9 == 0 else "train") for n, (text, label) in enumerate(ROWS)]
    content = "text,label,part\n" + "".join(f"{','.join(row)}\n" for row in rows)
    read = {"reader": "csv", "split": "part"}
    splits = {"train": ["train"], "dev": ["validation"]}
    assert shop.validated(content, folds=5, read=read, splits=splits).code == 0
    assert (shop.corpus()["folds"], shop.corpus()["rows"]["dev"]) == (0, 7)
    marked = "".join(json.dumps({"text": text, "label": label, "spans": [text[:2]]}) + "\n" for text, label in ROWS)
    source = {"suffix": "jsonl", "read": {"reader": "jsonl", "spans": "spans"}}
    assert shop.validated(marked, folds=5, **source).code == 0
    assert (shop.corpus()["folds"], shop.corpus()["rows"]["dev"]) == (0, 6)


def test_a_sample_of_train_has_folds(shop: Workshop) -> None:
    """max_train_rows is applied first: each fold has rows of the sample."""
    shop.params(validate={"max_train_rows": 20})
    assert shop.validated(csv(ROWS), folds=5).code == 0
    folds = ValidatedCorpus.read(shop.out).frame("train", "fold")["fold"]
    assert sorted(folds.value_counts()["count"]) == [4] * 5
