"""Tests of a growing data set: accepted formats of new files, and the splits that their rows join."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from epigram.core.errors import DataError
from epigram.data.growing_dataset import append_rows, check_rows, with_splits
from epigram.data.incoming_rows import read_file, read_rows, read_texts
from epigram.data.sources.source import File, Source
from epigram.data.validation.settings import ValidateSettings


def source(**more: object) -> Source:
    read = {"reader": "csv", "text": "said", "label": "mark", "names": {"1": "bad", "5": "good"}, "split": "part"}
    values = {"task": "single", "read": read, "labels": ["bad", "good"]} | more
    return Source(name="x", about="", language="en", licence="", files=[File(path="x", local="x")], **values)  # type: ignore[arg-type]


def test_a_file_has_the_columns_and_labels_of_the_base_but_for_the_split(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("said,mark\n fine ,5\nawful,1\n")
    frame = read_file(tmp_path / "a.csv", source())
    assert frame.select("text", "label").rows() == [("fine", "good"), ("awful", "bad")]


def test_an_encoding_is_recognised(tmp_path: Path) -> None:
    text = "said,mark\n" + "房间很小但是前台的姐姐真的太好了我们下次还会再来的,5\n" * 5
    (tmp_path / "a.csv").write_bytes(text.encode("gbk"))
    assert read_file(tmp_path / "a.csv", source())["text"][0].startswith("房间很小")


def test_quotation_marks_in_a_tsv_may_be_plain_characters(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('said\tmark\n"so fine\t5\nawful" he said\t1\n')
    assert read_file(tmp_path / "a.tsv", source())["text"].to_list() == ['"so fine', 'awful" he said']
    (tmp_path / "a.csv").write_text('said,mark\n5" long,5\nawful,1\n')
    assert read_file(tmp_path / "a.csv", source())["text"].to_list() == ['5" long', "awful"]


def test_a_sentence_in_quotation_marks_over_two_rows_of_a_tsv_stays_two_rows(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('said\tmark\n"I never thought I would like it.\t5\nBut I did."\t5\nmeh\t1\n')
    frame = read_file(tmp_path / "a.tsv", source())
    assert frame["text"].to_list() == ['"I never thought I would like it.', 'But I did."', "meh"]
    (tmp_path / "b.tsv").write_text('said\tmark\n"one\ntwo"\t5\nmeh\t1\n')
    assert read_file(tmp_path / "b.tsv", source())["text"].to_list() == ["one\ntwo", "meh"]


def csv_source(**read: object) -> Source:
    return source(read={"reader": "csv", "text": "said", "label": "mark", "names": {"1": "bad", "5": "good"}} | read)


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("a.csv", '"Great film",5\n', {"quote": None}),
        ("a.tsv", '"Great film"\t5\n', {"quote": None}),
        ("a.tsv", '"Great film"\t5\n', {"quote": None, "separator": "\t"}),
        ("a.csv", '"Great film"\t5\n', {"quote": None, "separator": "\t"}),
        ("a.csv", '"Great film";5\n', {"quote": None, "separator": ";"}),
    ],
)
def test_quotation_marks_are_plain_as_in_the_base(
    name: str, content: str, read: dict[str, str | None], tmp_path: Path
) -> None:
    separator = content[-3]
    (tmp_path / name).write_text(f"said{separator}mark\n{content}")
    assert read_file(tmp_path / name, csv_source(**read))["text"].to_list() == ['"Great film"']
    assert read_file(tmp_path / name, csv_source(separator=read.get("separator", ",")))["text"].to_list() == [
        "Great film"
    ]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_csv_has_the_separator_of_the_base_or_commas(separator: str, tmp_path: Path) -> None:
    base = csv_source(separator=separator, quote=None)
    (tmp_path / "own.csv").write_text(f"said{separator}mark\nwell, fine{separator}5\n")
    assert read_file(tmp_path / "own.csv", base)["text"].to_list() == ["well, fine"]
    (tmp_path / "usual.csv").write_text('said,mark\n"well, fine",5\n"bad",1\n')
    assert read_file(tmp_path / "usual.csv", base)["text"].to_list() == ["well, fine", "bad"]
    (tmp_path / "a.tsv").write_text("said\tmark\nwell; fine\t5\n")
    assert read_file(tmp_path / "a.tsv", base)["text"].to_list() == ["well; fine"]


def test_texts_of_one_column_may_have_commas_if_the_base_has_another_separator(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("said\nwell, fine\n")
    assert read_texts(tmp_path / "a.csv", csv_source(separator=";")) == ["well, fine"]
    (tmp_path / "a.csv").write_text('said\n"well, fine"\n')
    assert read_texts(tmp_path / "a.csv", csv_source(separator="\t", quote=None)) == ["well, fine"]


def test_the_format_of_a_base_that_is_no_csv_does_not_apply(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\nfine\n")
    assert read_texts(tmp_path / "a.csv", source(read={"reader": "conll", "separator": "blank"})) == ["fine"]
    (tmp_path / "a.jsonl").write_text('{"said": "fine", "mark": "5"}\n')
    assert read_file(tmp_path / "a.jsonl", csv_source(quote=None))["label"].to_list() == ["good"]


def test_texts_without_labels_are_read_as_those_with_labels(tmp_path: Path) -> None:
    base = csv_source(replace={"<br>": " ", "tasty": "nice"})
    (tmp_path / "labelled.csv").write_text("said,mark\nso<br>tasty<br>,5\n")
    (tmp_path / "a.csv").write_text("said\nso<br>tasty<br>\n<br>\n")
    (tmp_path / "b.txt").write_text("so<br>tasty<br>\n<br>\n")
    assert read_file(tmp_path / "labelled.csv", base)["text"].to_list() == ["so nice"]
    for name in ("a.csv", "b.txt"):
        assert read_texts(tmp_path / name, base) == ["so nice"]
    (tmp_path / "c.tsv").write_text('id\tsaid\n1\t"I never thought\n2\tBut I did."\n')
    assert read_texts(tmp_path / "c.tsv", base) == ['"I never thought', 'But I did."']


@pytest.mark.parametrize("encoding", ["gbk", "utf-16"])
def test_the_encoding_of_a_file_of_texts_is_recognised(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("房间很小但是前台的姐姐真的太好了\n我们下次还会再来的\n".encode(encoding))
    assert read_texts(tmp_path / "a.txt", source()) == ["房间很小但是前台的姐姐真的太好了", "我们下次还会再来的"]


@pytest.mark.parametrize(
    ("task", "label", "fault"), [("single", ["x", "y"], "a row has several labels"), ("multi", "x", "are one string")]
)
def test_a_file_with_another_kind_of_label_is_named_with_all_others(
    task: str, label: object, fault: str, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"said": "fine", "mark": label}) + "\n")
    (tmp_path / "b.csv").write_text("other,mark\nfine,5\n")
    with pytest.raises(DataError) as error:
        read_rows([tmp_path / "a.jsonl", tmp_path / "b.csv"], source(task=task), ValidateSettings())
    first, second, *_ = str(error.value).splitlines()
    assert first.startswith(f"{tmp_path}/a.jsonl does not fit the data set: ") and fault in first
    assert second.startswith(f"{tmp_path}/b.csv has no column 'said'")


def test_columns_of_a_base_that_is_no_table_are_text_and_label(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "fine", "label": "good"}\n')
    assert read_file(tmp_path / "a.jsonl", source(read={"reader": "trees"})).select("text", "label").rows() == [
        ("fine", "good")
    ]


def test_rows_that_the_settings_drop_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("said,mark\n,5\nawful,1\n")
    with pytest.raises(DataError, match=r"a\.csv: 1 × empty text"):
        read_rows([tmp_path / "a.csv"], source(), ValidateSettings())
    kept = read_rows([tmp_path / "a.csv"], source(), ValidateSettings(on_empty="drop")).frame
    assert kept is not None and kept["text"].to_list() == ["awful"]


def test_a_label_that_the_source_does_not_have_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("said,mark\nfine,5\nso so,3\n")
    with pytest.raises(DataError, match=r"1 × unknown label"):
        read_rows([tmp_path / "a.csv"], source(), ValidateSettings())


def test_every_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("other,mark\nfine,5\n")
    (tmp_path / "b.jsonl").write_text("[1]\n")
    with pytest.raises(DataError) as fault:
        read_rows([tmp_path / "a.csv", tmp_path / "b.jsonl"], source(), ValidateSettings())
    assert "a.csv has no column 'said'" in str(fault.value) and "b.jsonl line 1 is not" in str(fault.value)


def test_texts_need_no_labels(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("fine\n\nawful\n")
    (tmp_path / "b.csv").write_text("said\nfine\n \nawful\n")
    for name in ("a.txt", "b.csv"):
        assert read_texts(tmp_path / name, source()) == ["fine", "awful"]


def test_texts_with_several_labels_are_divided_by_the_first(tmp_path: Path) -> None:
    live = pl.DataFrame({"text": ["x"], "labels": [["a"]], "split": ["train"], "batch": [0]}).cast({"batch": pl.Int32})
    (tmp_path / "a.csv").write_text("said,mark\n" + "".join(f"text {n},{'a|b' if n % 2 else 'b'}\n" for n in range(40)))
    read = {"reader": "csv", "text": "said", "label": "mark", "label_separator": "|"}
    new = read_rows([tmp_path / "a.csv"], source(task="multi", read=read, labels=["a", "b"]), ValidateSettings()).frame
    assert new is not None
    after = append_rows(live, new, 0.1)
    dev = after.filter(pl.col("split") == "dev")
    assert after.height == 41 and sorted(dev["labels"].list.first().to_list()) == ["a", "a", "b", "b"]
    assert append_rows(after, new, 0.1).equals(after)


def test_the_share_of_dev_counts_only_rows_that_were_added_to_the_base() -> None:
    """The base has more than enough rows in dev; of 20 and then 10 new rows, a tenth goes there all the same."""
    base = pl.DataFrame({"text": [f"old {n}" for n in range(10)], "label": "a", "split": "dev", "batch": 0})
    live = base.cast({"batch": pl.Int32})
    for new, dev in ((range(20), 2), (range(20, 30), 3)):
        live = append_rows(live, pl.DataFrame({"text": [f"text {n}" for n in new], "label": ["a"] * len(new)}), 0.1)
        assert live.filter(pl.col("batch") > 0, pl.col("split") == "dev").height == dev


def test_a_text_that_only_the_base_has_is_stored_without_a_split() -> None:
    after = pl.DataFrame({"text": ["old", "new"], "split": ["dev", "train"], "batch": [0, 1]})
    new = pl.DataFrame({"text": ["New!", "Old"], "label": ["a", "b"]})
    assert with_splits(new, after)["split"].to_list() == ["train", None]


def test_equal_texts_that_arrive_together_are_added_once() -> None:
    live = pl.DataFrame({"text": ["old"], "label": ["a"], "split": ["train"], "batch": [0]}).cast({"batch": pl.Int32})
    new = pl.DataFrame({"text": ["fine", "Old!", "Fine!", "awful"], "label": ["a", "a", "b", "b"]})
    added = append_rows(live, new, 0.0).filter(pl.col("batch") == 1)
    assert added.select("text", "label").rows() == [("fine", "a"), ("awful", "b")]


@pytest.mark.parametrize(("split", "refused"), [("dev", True), ("train", False)])
def test_a_label_of_which_only_dev_has_a_row_is_refused(split: str, refused: bool) -> None:
    rows = {"text": ["x", "y", "z"], "labels": [["a"], ["b"], ["a", "new"]], "split": ["train", "train", split]}
    found = source(task="multi", labels=["a", "b", "new"])
    expected = pytest.raises(DataError, match=r"^x_live with .* label missing from train") if refused else nullcontext()
    with expected:
        check_rows(pl.DataFrame(rows), "x_live", found, ValidateSettings())


@pytest.mark.parametrize("labels", [[], ["a"]])
def test_rows_that_come_one_by_one_reach_dev_with_and_without_labels(labels: list[str]) -> None:
    kinds = {"text": pl.String, "labels": pl.List(pl.String)}
    live = pl.DataFrame({"text": ["base"], "labels": [["a"]]}, kinds)
    live = live.with_columns(split=pl.lit("train"), batch=pl.lit(0, pl.Int32))
    for n in range(40):
        live = append_rows(live, pl.DataFrame({"text": [f"text {n}"], "labels": [labels]}, kinds), 0.1)
    assert (live["split"] == "dev").sum() == 4


def arrived(live: pl.DataFrame, groups: list[str | None]) -> pl.DataFrame:
    """Return `live` with one new row of each group."""
    start, count = live.height, len(groups)
    rows = {"text": [f"text {start + n}" for n in range(count)], "label": ["ab"[n % 2] for n in range(count)]}
    return append_rows(live, pl.DataFrame({**rows, "group": groups}), 0.1)


def test_new_rows_of_a_group_are_in_its_split_and_a_tenth_of_new_groups_in_dev() -> None:
    base = {"text": ["x", "y", "z"], "label": ["a"] * 3, "split": ["train", "dev", "test"], "batch": [0] * 3}
    live = pl.DataFrame(base | {"group": ["ann", "bob", "cy"]}).cast({"batch": pl.Int32})
    live = arrived(live, ["cy", "ann", "bob", "cy"])
    assert live["split"].to_list()[3:] == ["test", "train", "dev", "test"]
    for batch in range(10):
        live = arrived(live, [f"writer {(batch * 7 + row) % 30}" for row in range(20)] + [None] * 4)
    splits = live.drop_nulls("group").group_by("group").agg(pl.col("split").unique())
    assert splits["split"].list.len().unique().to_list() == [1]
    assert 20 <= live.filter(pl.col("batch") > 0, pl.col("split") == "dev").height <= 30
    assert live.filter(pl.col("batch") > 1)["split"].unique().sort().to_list() == ["dev", "train"]


def test_rows_that_have_a_split_follow_their_group_if_the_base_has_changed() -> None:
    base = {"text": ["x"], "label": ["a"], "split": ["test"], "batch": [0], "group": ["ann"]}
    new = {"text": ["b", "c"], "label": ["a", "a"], "split": ["train", "dev"], "group": ["ann", "bob"]}
    after = append_rows(pl.DataFrame(base).cast({"batch": pl.Int32}), pl.DataFrame(new), 0.0)
    assert after["split"].to_list() == ["test", "test", "dev"]


def test_the_newest_new_rows_of_each_label_go_to_dev() -> None:
    base = {"text": ["x"], "label": ["a"], "split": ["train"], "batch": [0], "time": ["2023-05-01"]}
    dates = [f"{1 + n % 28}/{1 + n % 12}/2024" for n in range(40)]
    new = {"text": [f"text {n}" for n in range(40)], "label": ["a", "b"] * 20, "time": [*dates[:39], None]}
    after = append_rows(pl.DataFrame(base).cast({"batch": pl.Int32}), pl.DataFrame(new), 0.1)
    assert sorted(after.filter(pl.col("split") == "dev")["time"]) == [
        "11/11/2024",
        "12/12/2024",
        "23/11/2024",
        "24/12/2024",
    ]


@pytest.mark.parametrize(
    ("key", "values", "said"),
    [
        ("group", ["ann", "bob", "ann"], "x_live.parquet:1: the group 'ann' is in several splits"),
        ("time", ["2024-01-01", "2024-01-02", "soon"], "x_live.parquet:3: the time is 'soon'; expected dates"),
    ],
)
def test_groups_and_times_that_a_run_would_refuse_are_refused(key: str, values: list[str], said: str) -> None:
    rows = {"text": ["x", "y", "z"], "labels": [["a"], ["b"], ["a"]], "split": ["train", "train", "dev"], key: values}
    with pytest.raises(DataError, match=f"^x_live with the new rows has {said}"):
        check_rows(pl.DataFrame(rows), "x_live", source(task="multi", labels=["a", "b"]), ValidateSettings())


def test_labelled_rows_need_the_column_of_their_groups_and_texts_for_drift_do_not(tmp_path: Path) -> None:
    base = csv_source(group="author")
    (tmp_path / "a.csv").write_text("said,mark\nfine,5\n")
    with pytest.raises(DataError, match=r"a\.csv has no column 'author'"):
        read_rows([tmp_path / "a.csv"], base, ValidateSettings())
    assert read_texts(tmp_path / "a.csv", base) == ["fine"]
    (tmp_path / "a.csv").write_text("said,mark,author\nfine,5, ann \nawful,1,\n")
    found = read_rows([tmp_path / "a.csv"], replace(base, labels=["bad", "good"]), ValidateSettings()).frame
    assert found is not None and found["group"].to_list() == ["ann", None]
