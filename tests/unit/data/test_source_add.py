"""Tests of `epigram add`: it creates a source from a user's file that the pipeline can download and read."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epigram.cli import app as cli
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.data.corpus import read_corpus, spool_corpus
from epigram.data.incoming_rows import read_file
from epigram.data.sources.add import add_source
from epigram.data.sources.fetch import Fetcher
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import Source, load_source
from epigram.data.validation.row_index import Rows
from epigram.data.validation.row_rules import scan_rows

TEN = "".join(f"text {place},{'ab'[place % 2]}\n" for place in range(10))
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
    added = add_source(Path("My reviews.csv"), name="reviews", text="review", label="stars", split="part")
    assert added.path == Path("data/sources/reviews.yaml")
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
    assert (source.language, source.read["encoding"], source.read["quote"]) == ("zh", "gb18030", None)
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
    refused = {
        "../r": "'../r' cannot be the data set's name; choose lower-case letters",
        "r" * 101: "at most 100 characters",
        "r_live": "not end with _live",
    }
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
    with pytest.raises(DataError, match=r"damaged\.csv line 4 is not UTF-8, but other lines are; it is damaged"):
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
    assert add_source(Path("reviews.csv"), name="reviews", text="review", label="stars").path.exists()


def test_a_data_set_is_replaced_only_when_asked_for() -> None:
    Path("r.csv").write_text(REVIEWS)
    add_source(Path("r.csv"), name="r", text="review", label="stars", split="part")
    Path("r.csv").write_text(REVIEWS.replace("so so,1", "so so,5") + "late,7,test\n")
    with pytest.raises(ParameterError, match=r"r\.yaml already exists; choose another --name, or use --replace"):
        add_source(Path("r.csv"), name="r", text="review", label="stars")
    assert load_source("r").labels == ["1", "5", "10"]
    add_source(Path("r.csv"), name="r", text="review", label="stars", split="", replace=True)
    source = load_source("r")
    assert (source.labels, source.rows, source.splits) == (["5", "10", "7"], {"all": 4}, {})
    assert read_back("r")["label"].to_list() == ["5", "10", "5", "7"]


def test_labels_have_the_order_that_the_user_names() -> None:
    Path("r.csv").write_text("text,label\nfine day,good\nso so,fair\nno,bad\n")
    add_source(Path("r.csv"), name="r", text="text", label="label")
    assert load_source("r").labels == ["bad", "fair", "good"]
    order = ["good", "fair", "bad"]
    added = add_source(Path("r.csv"), name="r", text="text", label="label", ordered=order, replace=True)
    assert "mean_absolute_error use the order" in added.notes[-1]
    assert load_source("r").labels == order
    add_source(Path("r.csv"), name="r", text="text", label="label", replace=True)
    assert load_source("r").labels == order
    for wrong in (["bad", "good"], ["bad", "fair", "good", "best"]):
        with pytest.raises(
            ParameterError, match=r"--ordered lists bad, .*; the labels of the texts are bad, fair, good"
        ):
            add_source(Path("r.csv"), name="other", text="text", label="label", ordered=wrong)


def test_levels_of_labels_are_described_kept_and_offered() -> None:
    Path("r.csv").write_text("text,label\nfine day,goods/phone\nso so,goods/desk\nno,food/fruit\n")
    columns: Any = {"name": "r", "text": "text", "label": "label"}
    notes = add_source(Path("r.csv"), **columns).notes
    assert [note for note in notes if "--hierarchy '/'" in note] and load_source("r").hierarchy == ""
    assert "hierarchy" not in Path("data/sources/r.yaml").read_text()
    again = {**columns, "replace": True}
    assert not any("--hierarchy" in note for note in add_source(Path("r.csv"), **again, hierarchy="/").notes)
    assert load_source("r").hierarchy == "/"
    add_source(Path("r.csv"), **again)
    assert load_source("r").hierarchy == "/"
    add_source(Path("r.csv"), **again, hierarchy="o")
    assert load_source("r").hierarchy == "o"
    with pytest.raises(ParameterError, match=r"^--hierarchy is '>', which no label contains"):
        add_source(Path("r.csv"), **again, hierarchy=">")


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
    description = add_source(Path("r.csv"), name="r", text="review", label="stars", language="zh").path
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
    description = add_source(Path("r.csv"), name="r", text="review", label="stars", split="").path
    written = re.sub(r"labels:\n(- .*\n)+", "", description.read_text())
    description.write_text(written.replace("  text: review\n", f"  text: review\n{read}") + rest)
    Path("r.csv").write_text(content)
    add_source(Path("r.csv"), name="r", text="review", label="stars", split="", replace=True)
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


@pytest.mark.parametrize("own", ["distinct: exact\n", "sample: {per_class: 1}\ndistinct: exact\n"])
def test_repeats_that_the_user_leaves_out_are_not_expected_of_a_replaced_file(own: str) -> None:
    source = replaced("", f"labels: ['5', '1', '10']\n{own}", REVIEWS + "good,5,train\n")
    assert (source.labels, source.rows) == (["5", "1", "10"], {})
    assert read_back("r")["text"].to_list() == ["good", "bad", "so so"]


def test_a_description_of_the_users_own_is_not_replaced() -> None:
    Path("r.csv").write_text(REVIEWS)
    own = add_source(Path("r.csv"), name="r", text="review", label="stars").path
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


SPLITS = {"train": ["train"], "dev": ["valid"], "test": ["test"]}


@pytest.mark.parametrize(
    ("header", "values", "given", "used", "note"),
    [
        ("split", ["train", "valid", "test"], None, "split", None),
        ("Partition", ["train", "valid", "test"], None, "Partition", None),
        ("which", ["train", "valid", "test"], None, "which", None),
        ("split", ["train", "valid", "test"], "", None, None),
        ("split", ["test", "test", "test"], None, "split", None),
        ("which", ["test", "test", "test"], None, None, None),
        ("which", ["train", "valid", "other"], None, None, "column 'which' is not used: 'other' is not the name of a"),
        ("which", ["train", "", "test"], None, None, "column 'which' is not used: '' is not the name of a split"),
        ("which", ["train", "bus", "car"], None, None, None),
        ("数据集", ["训练集", "验证集", "测试集"], None, "数据集", None),
        ("Usage", ["Training", "PublicTest", "Test"], None, None, "column 'Usage' is not used: 'publictest' is not"),
        ("is_train", [True, False, True], None, None, "column 'is_train' is not used: 'false' is not the name"),
        ("split", [0, 1, 2], None, None, "column 'split' is not used: '0' is not the name of a split"),
        ("which", ["train", "train", "train"], None, None, None),
        ("which", ["valid", "test", "test"], None, None, None),
        ("split", ["train", "valid", "other"], None, None, "column 'split' is not used: 'other' is not the name of a"),
        ("fold", ["1", "2", "3"], None, None, "column 'fold' is not used: '1' is not the name of a split"),
        ("split", ["train", "", "test"], None, None, "column 'split' is not used: '' is not the name of a split"),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_column_of_splits_is_found_by_its_name_or_content(
    suffix: str, header: str, values: list[Any], given: str | None, used: str | None, note: str | None
) -> None:
    table = pl.DataFrame({"text": ["a", "b", "c"], "label": ["x", "y", "x"], "n": [1, 2, 3], header: values})
    file = Path(f"r.{suffix}")
    {"csv": table.write_csv, "jsonl": table.write_ndjson, "parquet": table.write_parquet}[suffix](file)
    added = add_source(file, name="r", text="text", label="label", split=given)
    assert load_source("r").read.get("split") == used
    assert read_back("r")["split"].null_count() == (0 if used else 3)
    assert [each[: len(note or "")] for each in added.notes] == ([note] if note else [])


def test_a_column_of_that_name_comes_before_one_of_such_content() -> None:
    Path("r.csv").write_text("text,label,mode,split\na,x,train,test\nb,y,dev,train\n")
    add_source(Path("r.csv"), name="r", text="text", label="label")
    assert load_source("r").read["split"] == "split"


@pytest.mark.parametrize(
    ("columns", "hint"),
    [
        ({"user": list("abcdea")}, "--group user keeps rows with the same value in one split"),
        ({"user": list("abcdef")}, None),
        ({"user": list("aaabbb")}, None),
        ({"city": list("abcdea")}, None),
        ({"date": [f"2024-01-0{day}" for day in range(1, 7)]}, "--time date tests on the newest rows"),
        ({"size": [f"{day}" for day in range(6)]}, None),
        ({"date": [*(f"2024-01-0{day}" for day in range(1, 6)), "soon"]}, None),
        ({"Author_ID": [1, 2, 3, 4, 5, 1], "at": [f"{day}.1.2024 10:00" for day in range(1, 7)]}, "--group Author_ID"),
        ({"user": list("abcdea"), "split": ["train", "test"] * 3}, None),
    ],
)
def test_columns_that_the_splits_could_follow_are_named(columns: dict[str, list[Any]], hint: str | None) -> None:
    pl.DataFrame({"text": list("uvwxyz"), "label": ["x", "y"] * 3} | columns).write_csv("r.csv")
    added = add_source(Path("r.csv"), name="r", text="text", label="label")
    said = [note for note in added.notes if note.startswith("the splits can follow a column: ")]
    assert len(added.notes) == len(said) == (hint is not None)
    assert hint is None or hint in said[0]


def test_groups_and_times_are_described_and_read() -> None:
    Path("r.csv").write_text(
        "text,label,who,day\n" + "".join(f"t{n},{'ab'[n % 2]}, w{n % 5} ,{n}\n" for n in range(10))
    )
    add_source(Path("r.csv"), name="r", text="text", label="label", group="who")
    assert read_back("r")["group"].to_list() == [f"w{n % 5}" for n in range(10)]
    add_source(Path("r.csv"), name="r", text="text", label="label", time="day", replace=True)
    assert "group" not in load_source("r").read and read_back("r")["time"].to_list() == [str(n) for n in range(10)]
    with pytest.raises(DataError, match=r"r\.csv has no column 'author'"):
        add_source(Path("r.csv"), name="s", text="text", label="label", group="author")
    with pytest.raises(ParameterError, match="use one of the two"):
        add_source(Path("r.csv"), name="s", text="text", label="label", group="who", time="day")


def test_repeated_header_lines_are_left_out_and_counted() -> None:
    Path("r.csv").write_text("text,label,split\n" + TEN.replace("\n", ",train\n") + "text,label,split\nz,a,test\n")
    added = add_source(Path("r.csv"), name="r", text="text", label="label")
    assert added.notes == ["rows that repeat the column names are left out: 1"]
    assert (added.rows, load_source("r").labels, load_source("r").read["split"]) == (11, ["a", "b"], "split")
    assert read_back("r")["text"].to_list() == [*(f"text {place}" for place in range(10)), "z"]
    headers = Counter[str]()
    spool_corpus(load_source("r"), Path("raw"), Path(), headers)
    assert headers == {"r.csv": 1}
    Path("b.csv").write_text("\ufefftext,label\n" + TEN + "\ufefftext,label\nz,a\nText,Label\n", encoding="utf-8")
    assert add_source(Path("b.csv"), name="b", text="text", label="label").rows == 11
    assert read_back("b")["label"].unique().sort().to_list() == ["a", "b"]
    Path("q.csv").write_text('"text","label"\n' + TEN + '\ufeff"text","label"\n', encoding="utf-8")
    assert add_source(Path("q.csv"), name="q", text="text", label="label").rows == 10
    Path("s.csv").write_text("text,label\n" + TEN + "text,a\nlabel,label\n")  # no headers
    assert add_source(Path("s.csv"), name="s", text="text", label="label").rows == 12


@pytest.mark.parametrize(
    ("answers", "texts", "note"),
    [
        (["accept", "reject", "accept", "ignore", "accept"], ["t0", "t2", "t4"], ["column 'answer' are left out: 2"]),
        (["accept", "reject", "accept", None, "accept"], ["t0", "t1", "t2", "t3", "t4"], []),
        (["accept", "accept", "accept", "accept", "accept"], ["t0", "t1", "t2", "t3", "t4"], []),
        (["yes", "reject", "accept", "ignore", "accept"], ["t0", "t1", "t2", "t3", "t4"], []),
    ],
)
def test_only_accepted_rows_of_prodigy_are_read(answers: list[str | None], texts: list[str], note: list[str]) -> None:
    rows = [{"text": f"t{place}", "label": "ab"[place // 2 % 2], "answer": each} for place, each in enumerate(answers)]
    Path("r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    added = add_source(Path("r.jsonl"), name="r", text="text", label="label")
    assert read_back("r")["text"].to_list() == texts and added.rows == len(texts)
    assert [each.partition("in the ")[2] for each in added.notes] == note
    assert read_file(Path("r.jsonl"), load_source("r"))["text"].to_list() == texts  # from the inbox


def lines(*labels: object) -> str:
    return "".join(json.dumps({"text": f"t{place}", "label": label}) + "\n" for place, label in enumerate(labels))


@pytest.mark.parametrize(
    ("content", "separator", "task", "labels", "notes"),
    [
        (lines(1, 0, 1.0, "1", 2.5), None, "single", ["0", "1", "2.5"], []),
        (lines(True, False, "true"), None, "single", ["false", "true"], []),
        (lines("pos", ["neg"], ["pos"]), None, "single", ["neg", "pos"], ["no row has several labels"]),
        (lines("pos", ["neg"], ["pos", "neg"], None), None, "multi", ["neg", "pos"], []),
        (lines(["pos"], ["neg"], []), None, "multi", ["neg", "pos"], ["rows with an empty list of labels: 1"]),
        (lines([1, 2.0], [2]), None, "multi", ["1", "2"], []),
        (lines({"choices": ["neg"]}, {"choices": ["pos"]}, "pos"), "[]", "single", ["neg", "pos"], ["no row has sev"]),
        (lines({"choices": ["neg", "x"]}, "x"), "[]", "multi", ["neg", "x"], []),
        (lines("a|b", ["b"], "c"), "|", "multi", ["a", "b", "c"], []),
        (lines("a|b", "b", "c"), "|", "multi", ["a", "b", "c"], []),
        (lines("a|b", "b", "c"), None, "single", ["a|b", "b", "c"], ["rows with labels that look like several"]),
        (lines("pos", "pos\u200b", "\ufeffneg"), None, "single", ["neg", "pos"], ["labels with invisible characters"]),
        (lines("pos", "pos ", "\u3000neg", None), None, "single", ["neg", "pos"], []),
        (lines(["pos ", "neg"], ["pos"], ["neg "]), None, "multi", ["neg", "pos"], []),
        (lines("Pos", "pos", "neg"), None, "single", ["Pos", "neg", "pos"], ["the labels"]),
    ],
)
def test_labels_of_json_lines(
    content: str, separator: str | None, task: str, labels: list[str], notes: list[str]
) -> None:
    Path("r.jsonl").write_text(content)
    added = add_source(Path("r.jsonl"), name="r", text="text", label="label", label_separator=separator)
    source, frame = load_source("r"), read_back("r")
    assert (source.task, source.labels) == (task, labels)
    assert [each[: len(note)] for each, note in zip(added.notes, notes, strict=True)] == notes
    found = frame["labels"].explode() if task == "multi" else frame["label"]
    assert set(found.drop_nulls()) == set(labels)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (pl.Series([1.0, None, 0.0, float("nan")]), ["1", None, "0", None]),
        (pl.Series([1.0, 2.5, 1.5, 3.0]), ["1", "2.5", "1.5", "3"]),
        (pl.Series([1e16, 0.5, 1e16, -3.0]), ["10000000000000000", "0.5", "10000000000000000", "-3"]),
        (pl.Series(["1.0", "1", "2", "2"]), ["1.0", "1", "2", "2"]),
        (pl.Series([[1.0], [0.0], [1.0], [0.0]]), ["1", "0", "1", "0"]),
        (pl.Series([[1.0, None], [0.0], None, [0.0]]), ["1", "0", None, "0"]),
        (pl.Series([True, False, None, True]), ["true", "false", None, "true"]),
    ],
)
def test_numbers_of_parquet_are_labels_as_the_user_writes_them(values: pl.Series, labels: list[str | None]) -> None:
    pl.DataFrame({"text": list("abcd"), "label": values}).write_parquet("r.parquet")
    add_source(Path("r.parquet"), name="r", text="text", label="label")
    assert read_back("r")["label"].to_list() == labels


@pytest.mark.parametrize(
    ("texts", "encoding", "note"),
    [
        (
            ["très bon", "déçu", "ok"],
            "cp1252",
            ["texts are UTF-8 that a program read as cp1252, such as 'trÃ¨s' for 'très';"],
        ),
        (["Á bientôt", "Íntimo", "ok"], "latin-1", ["texts are UTF-8 that a program read as latin-1"]),
        (["服务很好下次", "不错的酒店啊", "ok"], "gb18030", ["texts are UTF-8 that a program read as gb18030"]),
        (["très bon", "déçu", "ok"], "utf-8", []),
        (["服务很好下次", "联通", "好"], "utf-8", []),
    ],
)
def test_texts_that_were_read_by_another_encoding_are_noted(texts: list[str], encoding: str, note: list[str]) -> None:
    rows = [(text.encode().decode(encoding), "ab"[place % 2]) for place, text in enumerate(texts)]
    pl.DataFrame(rows, schema=["text", "label"], orient="row").write_csv("r.csv")
    notes = add_source(Path("r.csv"), name="r", text="text", label="label").notes
    assert [each[: len(start)] for each, start in zip(notes, note, strict=True)] == note


def test_names_of_columns_are_no_patterns_and_appear_once() -> None:
    table = pl.DataFrame({"*": ["a", "b"], "^l.*$": ["x", "y"], "l1": [1, 2], "m": [{"a": 1}, None], "b": [b"1", b"2"]})
    table = table.with_columns(d=pl.Series([1, 2], dtype=pl.Duration))
    table.write_parquet("r.parquet")
    add_source(Path("r.parquet"), name="r", text="*", label="^l.*$")
    assert read_back("r").select("text", "label").rows() == [("a", "x"), ("b", "y")]
    pl.DataFrame({"text": ["a"], "label": ["x"], "labex": ["y"]}).write_parquet("d.parquet")
    Path("d.parquet").write_bytes(Path("d.parquet").read_bytes().replace(b"labex", b"label"))
    with pytest.raises(DataError, match=r"d\.parquet has two columns of the same name; rename one"):
        add_source(Path("d.parquet"), name="d", text="text", label="label")


def test_names_of_invisible_characters_are_written_beside_the_users_own() -> None:
    Path("r.csv").write_text("text,label\n" + TEN + "x,a\u200b\n", encoding="utf-8")
    description = add_source(Path("r.csv"), name="r", text="text", label="label").path
    assert load_source("r").read["names"] == {"a\u200b": "a"}
    description.write_text(description.read_text().replace("  names:\n", "  names:\n    b: bad\n"))
    add_source(Path("r.csv"), name="r", text="text", label="label", replace=True)
    assert load_source("r").read["names"] == {"a\u200b": "a", "b": "bad"}
    assert read_back("r")["label"].value_counts(sort=True).rows() == [("a", 6), ("bad", 5)]


def test_the_command_prints_what_it_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Path("r.csv").write_text("text,label,split\n" + "a,x|y,train\nb,x,dev\nc,y,test\n" * 9)

    def run(*options: str) -> tuple[str, str]:
        monkeypatch.setattr("sys.argv", ["epigram", "add", "r.csv", "--replace", *options])
        cli.app()
        return capsys.readouterr()

    out, err = run()
    assert out.startswith("data/sources/r.yaml: added (27 rows, 3 labels, en, splits of the column 'split'); to train")
    assert err.startswith("note: rows with labels that look like several labels in one") and err.count("\n") == 1
    out, err = run("--no-split", "--label-separator", "|")
    assert (out.partition(";")[0], err) == ("data/sources/r.yaml: added (27 rows, 2 labels, en)", "")
    assert (load_source("r").task, load_source("r").splits) == ("multi", {})
    with pytest.raises(SystemExit):
        run("--no-split", "--split", "split")
    assert "--split is 'split', and --no-split is given" in capsys.readouterr().err
    Path("params.yaml").write_text("dataset: other\nretrain: {incoming: in}\n")
    assert "new rows" not in run("--no-split")[0]  # another data set is retrained
    Path("params.yaml").write_text("dataset: r\nretrain: {incoming: in}\n")
    line = "new rows: put tables with the columns text and label into in, then run: epigram retrain\n"
    assert run("--no-split")[0].endswith(line)
