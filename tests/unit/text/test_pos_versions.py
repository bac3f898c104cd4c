"""Versions of the part-of-speech table: it grows by words of training texts and loses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.core.errors import DataError
from epigram.core.files import sha256
from epigram.text.pos.pos_table import PosTable, build, load
from epigram.text.pos.pos_versions import SCHEMA, WORDS, add_version, find_words, publish, read_version
from epigram.text.settings import PosTableSettings
from epigram.workflow.pos_table import write_pos_table
from tests.support.text_samples import encoded_in, validated


def words(*rows: tuple[str, str, str, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def row(table: PosTable, entry: str) -> dict[str, Any]:
    return table.frame.row(by_predicate=pl.col("entry") == entry, named=True)


def test_a_version_has_the_words_of_its_predecessor_and_the_new_ones(tmp_path: Path) -> None:
    assert (read_version(tmp_path).number, read_version(tmp_path).words.height) == (1, 0)
    second = publish(tmp_path, words(("zh", "呗呗", "y", 2), ("en", "#", "SYM", 1), ("en", "# ing", "VERB", 1)))
    assert second is not None
    assert (second.number, second.previous) == (2, None)
    before = sha256(tmp_path / WORDS)
    third = publish(tmp_path, words(("zh", "呗呗", "n", 9), ("zh", "再者", "c", 1), ("en", "呗呗", "NOUN", 1)))
    assert third is not None
    assert (third.number, third.previous) == (3, before)
    again = read_version(tmp_path)
    assert (again.number, again.previous) == (3, before)
    assert again.words.rows() == [
        ("zh", "呗呗", "y", 2),  # a word that is known keeps its tags
        ("en", "# ing", "VERB", 1),  # the mark # has no row
        ("zh", "再者", "c", 1),
        ("en", "呗呗", "NOUN", 1),
    ]


def test_no_new_word_is_no_new_version(tmp_path: Path) -> None:
    assert publish(tmp_path, words(("zh", "，", "w", 3))) is None
    assert not (tmp_path / WORDS).exists()
    publish(tmp_path, words(("zh", "再者", "c", 1)))
    before = (tmp_path / WORDS).read_bytes()
    assert publish(tmp_path, words(("zh", "再者", "n", 5))) is None
    assert (tmp_path / WORDS).read_bytes() == before


def test_a_version_adds_rows_and_changes_no_other(tmp_path: Path) -> None:
    base = build(PosTableSettings())
    publish(tmp_path, words(("zh", "再者", "c", 3), ("zh", "再者", "n", 1), ("zh", "的", "n", 10**9)))
    table = add_version(base, read_version(tmp_path))
    assert table.frame.head(base.frame.height).equals(base.frame)
    assert table.version == 2
    added = table.frame[base.frame.height :]
    assert added["entry"].to_list() == ["再者"]
    assert row(table, "再者") == {
        "entry": "再者",
        "language": "zh",
        "level": None,
        "parts": [{"tag": "c", "frequency": 3}, {"tag": "n", "frequency": 1}],
        "weight": 0.5,
        "source": "corpus",
    }
    assert (row(table, "的")["source"], row(table, "的")["weight"]) == ("hand", 0.5)


def test_a_correction_in_a_file_of_the_user_overrides_every_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data/local").mkdir(parents=True)
    Path("data/local/mine.tsv").write_text("# mine\n再者\tzh\tn\n的\tzh\tn\nnevertheless\ten\tADV\n", encoding="utf-8")
    settings = PosTableSettings(corrections="data/local/mine.tsv")
    publish(tmp_path, words(("zh", "再者", "c", 3)))
    publish(tmp_path, words(("zh", "呗呗", "y", 3)))
    table = add_version(build(settings), read_version(tmp_path))
    assert [(row(table, word)["source"], row(table, word)["weight"]) for word in ("再者", "的", "呗呗")] == [
        ("hand", 1.0),  # the file
        ("hand", 1.0),  # the file, not the package's correction
        ("corpus", 0.5),
    ]
    assert row(table, "了")["weight"] == 0.5


@pytest.mark.parametrize(("text", "expected"), [
    ("zh\t再者\tc\t3\n", r"words\.tsv line 1 is not"),
    ("# version x, follows none\n", r"words\.tsv line 1 is not"),
    ("# version 2, follows none\nzh\t再者\tc\n", "line 2 has 3 columns"),
    ("# version 2, follows none\nzh\t再者\tc\tmany\n", "has an invalid frequency"),
])  # fmt: skip
def test_a_damaged_version_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / WORDS).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=expected):
        read_version(tmp_path)


CORPUS = {
    "train": [("再者我的目的", "pos"), ("再者好", "neg")],
    "dev": [("无果", "pos")],
    "test": [("如若", "neg")],
}


def run_stage(folder: Path) -> PosTable:
    write_pos_table(PosTableSettings(), folder / "validated", folder / "versions", folder / "pos")
    return load(folder / "pos")


def test_the_words_of_train_are_published_and_the_stage_starts_with_them(tmp_path: Path) -> None:
    validated(tmp_path / "validated", "zh", CORPUS)
    first = run_stage(tmp_path)
    assert first.version == 1
    found = find_words(tmp_path / "validated", tmp_path / "pos", tmp_path)
    assert found.rows() == [("zh", "再者", "c", 2)], "words of train, and none of dev and test"
    assert publish(tmp_path / "versions", found) is not None

    second = run_stage(tmp_path)
    assert second.version == 2
    assert second.frame.equals(first.frame), "the same words, so no other stage runs again"
    assert json.loads((tmp_path / "pos" / "about.json").read_text(encoding="utf-8"))["version"] == 2
    assert publish(tmp_path / "versions", find_words(tmp_path / "validated", tmp_path / "pos", tmp_path)) is None

    # another corpus, whose own words are all known to the package
    validated(tmp_path / "validated", "zh", {split: [("再者好吃", "pos"), ("目的", "neg")] for split in CORPUS})
    third = run_stage(tmp_path)
    assert row(third, "再者")["weight"] == 0.5
    assert find_words(tmp_path / "validated", tmp_path / "pos", tmp_path)["entry"].to_list() == ["再者"]


def test_a_published_word_changes_the_weights_of_a_corpus_that_did_not_have_it(tmp_path: Path) -> None:
    # the sample of train has no 再者; only a version of another corpus adds it
    rows: dict[str, list[tuple[str, str]]] = {split: [("好吃", "pos"), ("目的", "neg")] for split in CORPUS}
    rows["dev"] = [("再者", "pos"), ("好", "neg")]
    validated(tmp_path / "validated", "zh", rows)
    run_stage(tmp_path)
    before = encoded_in(tmp_path / "a", tmp_path / "pos", rows)
    assert before.pos_words is not None
    assert "再者" not in before.pos_words["weights"]
    publish(tmp_path / "versions", words(("zh", "再者", "c", 3)))
    run_stage(tmp_path)
    after = encoded_in(tmp_path / "b", tmp_path / "pos", rows)
    assert after.pos_words is not None
    assert after.pos_words["weights"]["再者"] == 0.5
    assert np.array_equal(before.pos_weight(), after.pos_weight()), "rows of characters stay"
