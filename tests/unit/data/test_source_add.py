"""Tests of `epigram add`: it creates a source from a user's file that the pipeline can download and read."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.data.corpus import read_corpus
from epigram.data.sources.add import add_source
from epigram.data.sources.fetch import Fetcher
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import Source, load_source
from epigram.data.validation.row_index import Rows
from epigram.data.validation.row_rules import scan_rows

REVIEWS = "review,stars,part\ngood,5,train\nbad,10,valid\nso so,1,test\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read_back(name: str) -> pl.DataFrame:
    """Download and read a source as the stages do."""
    source = load_source(name)
    for file in source.files:
        Fetcher(Path("arrivals"), DownloadSettings()).fetch(file, Path("raw"))
    return read_corpus(source, Path("raw"))


def test_a_csv_with_splits() -> None:
    Path("My reviews.csv").write_text(REVIEWS)
    path = add_source(Path("My reviews.csv"), name="reviews", text="review", label="stars", split="part")
    assert path == Path("data/sources/reviews.yaml")
    source = load_source("reviews")
    assert source.labels == ["1", "5", "10"]
    assert (source.language, source.task) == ("en", "single")
    assert read_back("reviews").select("text", "label", "split").rows() == [
        ("good", "5", "train"),
        ("bad", "10", "dev"),
        ("so so", "1", "test"),
    ]


def test_gbk_tsv_and_quotation_marks() -> None:
    Path("r.tsv").write_bytes('text\tlabel\n很好，下次还来\t好\n说"不好"的人\t坏\n"没有结束\t坏\n'.encode("gbk"))
    add_source(Path("r.tsv"), name="r", text="text", label="label")
    source = load_source("r")
    assert (source.language, source.read["encoding"], source.read["quote"]) == ("zh", "gbk", None)
    assert read_back("r")["text"].to_list() == ["很好，下次还来", '说"不好"的人', '"没有结束']


def test_several_labels() -> None:
    pl.DataFrame({"text": ["a", "b"], "tags": [["x", "y"], ["y"]]}).write_parquet("t.parquet")
    add_source(Path("t.parquet"), name="t", text="text", label="tags")
    assert load_source("t").labels == ["x", "y"]
    assert read_back("t")["labels"].to_list() == [["x", "y"], ["y"]]


def test_what_cannot_be_added_leaves_nothing_behind() -> None:
    Path("r.csv").write_text(REVIEWS)
    Path("r.txt").write_text(REVIEWS)
    Path("ids.csv").write_text("text,id\n" + "".join(f"t{place},{place}\n" for place in range(50)))
    with pytest.raises(DataError, match=r"r\.csv has no column 'text'"):
        add_source(Path("r.csv"), name="r", text="text", label="stars")
    with pytest.raises(DataError, match="has the unknown split '1'"):
        add_source(Path("r.csv"), name="r", text="review", label="part", split="stars")
    with pytest.raises(ParameterError, match=r"'id', .* 50 different values in 50 rows"):
        add_source(Path("ids.csv"), name="r", text="text", label="id")
    refused = {"../r": "lower-case letters", "r" * 101: "at most 100 characters", "r_live": "not end with _live"}
    for name, said in refused.items():
        with pytest.raises(ParameterError, match=said):
            add_source(Path("r.csv"), name=name, text="review", label="stars")
    with pytest.raises(ParameterError, match=r"r\.txt has an unsupported file type; expected \.csv"):
        add_source(Path("r.txt"), name="r", text="review", label="stars")
    with pytest.raises(InputMissingError, match=r"none\.csv is missing"):
        add_source(Path("none.csv"), name="r", text="review", label="stars")
    assert not Path("data").exists()
    add_source(Path("r.csv"), name="r", text="review", label="stars")
    with pytest.raises(ParameterError, match="already exists"):
        add_source(Path("r.csv"), name="r", text="review", label="stars")


def test_an_encoding_that_shows_late(tmp_path: Path) -> None:
    plain = "text,label\n" + "a plain line,1\n" * 90_000
    Path("r.csv").write_bytes((plain + "café,2\n“so”,2\n").encode("cp1252"))
    add_source(Path("r.csv"), name="r", text="text", label="label")
    assert load_source("r").read["encoding"] == "cp1252"
    assert read_back("r")["text"].to_list()[-2:] == ["café", "“so”"]
    Path("damaged.csv").write_bytes("text,label\n很好，下次还来,1\n没有了,2\n".encode() + b"\xff,1\n")
    with pytest.raises(DataError, match=r"is not UTF-8 at byte .* the file is damaged"):
        add_source(Path("damaged.csv"), name="damaged", text="text", label="label")


def test_stray_quotation_marks_in_a_csv() -> None:
    Path("r.csv").write_text('text,label\n5" long,1\nfine,2\n')
    add_source(Path("r.csv"), name="r", text="text", label="label")
    assert load_source("r").read["quote"] is None
    assert read_back("r")["text"].to_list() == ['5" long', "fine"]
    for name, content in (("open", '"never closed,1\n"so, so",2\n'), ("both", '"quoted",1\n5" long,2\n')):
        Path(f"{name}.csv").write_text("text,label\n" + content)
        with pytest.raises(DataError, match=rf"{name}\.csv"):
            add_source(Path(f"{name}.csv"), name=name, text="text", label="label")


def test_a_sentence_in_quotation_marks_over_two_rows_of_a_tsv_stays_two_rows() -> None:
    Path("r.tsv").write_text('id\ttext\tlabel\n1\t"I never thought.\ta\n2\tBut I did."\tb\n3\tmeh\tb\n')
    add_source(Path("r.tsv"), name="r", text="text", label="label")
    assert (load_source("r").read["quote"], load_source("r").rows) == (None, {"all": 3})
    assert read_back("r")["text"].to_list() == ['"I never thought.', 'But I did."', "meh"]
    Path("q.tsv").write_text('text\tlabel\n"one\ntwo"\ta\nmeh\tb\n')
    add_source(Path("q.tsv"), name="q", text="text", label="label")
    assert "quote" not in load_source("q").read
    assert read_back("q")["text"].to_list() == ["one\ntwo", "meh"]


def test_a_file_of_the_users_own_is_not_overwritten() -> None:
    """The file belongs to no source and may be the only copy."""
    own = Path("data/local/reviews.csv")
    own.parent.mkdir(parents=True)
    own.write_text("my own\n")
    Path("reviews.csv").write_text(REVIEWS)
    with pytest.raises(ParameterError, match=r"data/local/reviews\.csv already exists with other content"):
        add_source(Path("reviews.csv"), name="reviews", text="review", label="stars")
    assert own.read_text() == "my own\n"
    assert not Path("data/sources/reviews.yaml").exists()
    own.write_text(REVIEWS)  # as an interrupted `epigram add` leaves it
    assert add_source(Path("reviews.csv"), name="reviews", text="review", label="stars").exists()


def test_a_data_set_is_replaced_only_when_asked_for() -> None:
    Path("r.csv").write_text(REVIEWS)
    add_source(Path("r.csv"), name="r", text="review", label="stars", split="part")
    Path("r.csv").write_text(REVIEWS.replace("so so,1", "so so,5") + "late,7,test\n")
    with pytest.raises(ParameterError, match=r"r\.yaml already exists; choose another --name, or use --replace"):
        add_source(Path("r.csv"), name="r", text="review", label="stars")
    assert load_source("r").labels == ["1", "5", "10"]
    add_source(Path("r.csv"), name="r", text="review", label="stars", replace=True)
    source = load_source("r")
    assert (source.labels, source.rows, source.splits) == (["5", "10", "7"], {"all": 4}, {})
    assert read_back("r")["label"].to_list() == ["5", "10", "5", "7"]


def test_the_copy_itself_can_be_edited_and_added_again() -> None:
    Path("r.csv").write_text(REVIEWS)
    add_source(Path("r.csv"), name="r", text="review", label="stars")
    copy = Path("data/local/r.csv")
    copy.write_text(REVIEWS + "late,7,test\n")
    with pytest.raises(ParameterError, match=r"data/local/r\.csv already exists with other content"):
        add_source(Path("r.csv"), name="r", text="review", label="stars", replace=True)
    assert "late" in copy.read_text()
    add_source(copy, name="r", text="review", label="stars", replace=True)
    assert read_back("r")["text"].to_list()[-1] == "late"


def test_what_the_user_has_added_to_the_description_stays() -> None:
    Path("r.csv").write_text(REVIEWS)
    description = add_source(Path("r.csv"), name="r", text="review", label="stars", language="zh")
    old = description.read_text().replace("- '1'\n- '5'\n- '10'\n", "- '10'\n- '1'\n- '5'\n")
    description.write_text(old + "folds: 3\nkeep: [part]\n")
    Path("r.csv").write_text(REVIEWS + "late,7,test\n")
    add_source(Path("r.csv"), name="r", text="review", label="stars", replace=True)
    source = load_source("r")
    assert (source.labels, source.language) == (["10", "1", "5", "7"], "zh")
    assert (source.folds, source.keep, source.rows) == (3, ["part"], {"all": 4})
    add_source(Path("r.csv"), name="r", text="review", label="stars", replace=True, language="en")
    assert load_source("r").language == "en"


def replaced(read: str, rest: str, content: str = REVIEWS) -> Source:
    """Add REVIEWS, add the lines `read` and `rest` to its description in place of its labels, and add `content`."""
    Path("r.csv").write_text(REVIEWS)
    description = add_source(Path("r.csv"), name="r", text="review", label="stars")
    written = re.sub(r"labels:\n(- .*\n)+", "", description.read_text())
    description.write_text(written.replace("  text: review\n", f"  text: review\n{read}") + rest)
    Path("r.csv").write_text(content)
    add_source(Path("r.csv"), name="r", text="review", label="stars", replace=True)
    return load_source("r")


def invalid_rows(source: Source) -> int:
    """Return how many rows violate a rule, read as the stage `validate` reads them."""
    frame = read_back(source.name)
    return scan_rows(Rows(frame.lazy()), source.task, source.labels).violations.height


def test_labels_of_a_replaced_file_have_the_names_that_the_user_gave_them() -> None:
    source = replaced("  names: {1: bad, '5': good, '10': good}\n", "labels: [good, bad]\n", REVIEWS + "late,7,test\n")
    assert (source.labels, source.rows) == (["good", "bad", "7"], {"all": 4})
    assert read_back("r")["label"].to_list() == ["good", "good", "bad", "7"]
    assert invalid_rows(source) == 0


def test_rows_that_the_user_leaves_out_are_not_expected_of_a_replaced_file() -> None:
    source = replaced("  names: {1: bad, 5: good}\n  named_only: true\n", "labels: [bad, good]\n")
    assert (source.labels, source.rows) == (["bad", "good"], {})
    assert read_back("r").select("text", "label").rows() == [("good", "good"), ("so so", "bad")]
    assert invalid_rows(source) == 0


def test_repeats_that_the_user_leaves_out_are_not_expected_of_a_replaced_file() -> None:
    source = replaced("", "labels: ['5', '1', '10']\ndistinct: exact\n", REVIEWS + "good,5,train\n")
    assert (source.labels, source.rows) == (["5", "1", "10"], {})
    assert read_back("r")["text"].to_list() == ["good", "bad", "so so"]


def test_a_description_of_the_users_own_is_not_replaced() -> None:
    Path("r.csv").write_text(REVIEWS)
    own = add_source(Path("r.csv"), name="r", text="review", label="stars")
    own.write_text("# mine\n" + own.read_text())
    with pytest.raises(ParameterError, match=r"data/sources/r\.yaml was not written by `epigram add`"):
        add_source(Path("r.csv"), name="r", text="review", label="stars", replace=True)
    assert own.read_text().startswith("# mine")


def test_a_file_that_changes_while_it_is_added_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("reviews.csv").write_text(REVIEWS)
    copyfile = shutil.copyfile

    def later(source: Path, target: Path) -> None:
        source.write_text(REVIEWS + "late,1,test\n")
        copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", later)
    with pytest.raises(DataError, match=r"reviews\.csv changed while it was read"):
        add_source(Path("reviews.csv"), name="reviews", text="review", label="stars")
    assert not list(Path("data").rglob("*reviews*"))
