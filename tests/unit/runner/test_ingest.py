"""Tests of the inbox: which files hold new rows, where they are moved, and which labels are allowed."""

from __future__ import annotations

import json
import os
import sqlite3
from hashlib import sha256
from pathlib import Path

import polars as pl
import pytest

from epigram.core.errors import DataError, ParameterError
from epigram.data.sources.source import load_source
from epigram.runner.retraining import drift, inbox, ingest
from epigram.runner.workspace.settings import Query, RetrainSettings

SOURCE = """\
name: {name}
about: a few texts
language: en
task: single
licence: none
files: [{{path: x.csv, local: data/local/x.csv}}]
read: {{reader: csv, text: {text}}}
labels: [{labels}]
"""


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    """Return the folder for new rows in the repository `tmp_path`."""
    folder = tmp_path / RetrainSettings().incoming
    folder.mkdir(parents=True)
    return folder


def test_a_hidden_file_has_not_arrived(incoming: Path) -> None:
    for name in ("b.csv", ".c.csv", "a.txt", "d/e.csv"):
        (incoming / name).parent.mkdir(exist_ok=True)
        (incoming / name).touch()
    assert [file.name for file in inbox.waiting_files(incoming)] == ["a.txt", "b.csv"]
    with inbox.open_inbox(incoming) as files:
        assert [file.name for file in files] == ["b.csv"]


def test_an_archived_file_is_not_overwritten_by_one_of_the_same_name(incoming: Path) -> None:
    for text in ("first", "second", "third"):
        (incoming / "a.csv").write_text(text)
        assert inbox.archive(incoming, incoming / "a.csv", sha256(text.encode()).hexdigest())
    (incoming / "a.csv").write_text("fourth")
    assert not inbox.archive(incoming, incoming / "a.csv", sha256(b"third").hexdigest())
    taken = {file.name: file.read_text() for file in (incoming / "taken").iterdir()}
    assert taken == {"a.csv": "first", "a-2.csv": "second", "a-3.csv": "third"}


def test_new_rows_have_the_columns_of_the_base_and_the_labels_of_the_growing_data_set(tmp_path: Path) -> None:
    sources = tmp_path / "data" / "sources"
    sources.mkdir(parents=True)
    base = SOURCE.format(name="shop", text="review, encoding: gb18030", labels="bad, good")
    (sources / "shop.yaml").write_text(base)
    (sources / "shop_live.yaml").write_text(SOURCE.format(name="shop_live", text="text", labels="bad, good, odd"))
    source = ingest.row_source(tmp_path, "shop_live")
    assert (source.labels, source.read["text"]) == (["bad", "good", "odd"], "review")
    assert "encoding" not in source.read  # new files may have another one than the base
    assert ingest.row_source(tmp_path, "shop_live", "cp932").read["encoding"] == "cp932"


@pytest.mark.parametrize(
    ("read", "columns"),
    [
        ("reader: csv", "text and label"),
        ("reader: csv, text: [title, body], label: stars, group: author", "title, body, stars and author"),
        ("reader: lines, text: 1, label: 0", "text and label"),  # columns of lines are numbers; new rows are in tables
    ],
)
def test_the_columns_of_new_rows_are_named(read: str, columns: str, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("dataset: shop\n")
    text = SOURCE.format(name="shop", text="review", labels="bad, good")
    (tmp_path / "shop.yaml").write_text(text.replace("reader: csv, text: review", read))
    expected = f"new rows: put tables with the columns {columns} into data/local/incoming, then run: epigram retrain"
    assert inbox.invitation(tmp_path, load_source("shop", tmp_path)) == expected


@pytest.mark.parametrize("name", ["../../precious", "/precious", ".hidden", "a b", ""])
def test_a_data_set_that_grows_out_of_a_path_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match=r"dataset is .*; expected letters, digits"):
        ingest.grown_name(name)


def test_drift_is_measured_on_the_newest_file_first(tmp_path: Path, incoming: Path) -> None:
    for age, name in enumerate(("b.txt", "c.txt", "a.txt")):
        (incoming / name).touch()
        os.utime(incoming / name, (1_000 - age, 1_000 - age))
    files = drift._newest_first(tmp_path, RetrainSettings())
    assert [file.name for file in files] == ["b.txt", "c.txt", "a.txt"]


@pytest.mark.parametrize("size", [1, 3])
def test_labelled_rows_behind_the_newest_texts_are_found(size: int) -> None:
    newest = pl.DataFrame({"text": ["a", "b", "c"]})
    labelled = pl.DataFrame({"text": ["d", "e"], "label": ["x", "y"]})
    files = iter([newest, labelled, labelled])
    found = drift._newest_texts(files, size)
    assert (found.texts, found.labels, found.labelled) == (["a", "b", "c"][-size:], [], 2)
    assert len(list(files)) == 1  # no more are read than needed
    assert drift._newest_texts([newest], size).labelled == 0


def test_the_labels_of_the_newest_texts_are_measured() -> None:
    labelled = pl.DataFrame({"text": ["d", "e"], "label": ["x", "y"]})
    found = drift._newest_texts([labelled, labelled], 3)
    assert (found.texts, found.labels, found.labelled) == (["d", "e", "e"], [["x"], ["y"], ["y"]], 4)


def test_a_name_that_leaves_no_room_for_a_number_is_cut(incoming: Path) -> None:
    """A file name has at most 255 bytes; the two bytes of `-2` replace the three bytes of the last character."""
    name = f"{'a' * 248}文.csv"
    for text in ("first", "second"):
        (incoming / name).write_text(text)
        assert inbox.archive(incoming, incoming / name, sha256(text.encode()).hexdigest())
    taken = {file.name: file.read_text() for file in (incoming / "taken").iterdir()}
    assert taken == {name: "first", f"{'a' * 248}-2.csv": "second"}


@pytest.mark.parametrize("name", ["working", "taken"])
def test_a_file_in_the_place_of_a_folder_is_said_and_no_other_moves(incoming: Path, name: str) -> None:
    (incoming / "a.csv").write_text("a")
    if name == "taken":
        (incoming / "a.csv").rename(incoming / "a.txt")  # otherwise it would count as a new file
    (incoming / name).write_text("mine")
    with pytest.raises(DataError, match=rf"{name} is a file; remove it, so that a folder can be created"):
        if name == "working":
            with inbox.open_inbox(incoming):
                pass
        else:
            inbox.archive(incoming, incoming / "a.txt", sha256(b"a").hexdigest())
    assert (incoming / name).read_text() == "mine"
    assert len(list(incoming.iterdir())) == 2


@pytest.mark.parametrize(
    "named",
    ["data/local/incoming", "data/local/incoming/a", "data/local/a/b", "data/local/x.1", "../elsewhere", "/srv"],
)
def test_new_rows_arrive_in_a_folder_of_their_own(tmp_path: Path, named: str) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / ".dvcignore").write_text("# new rows\n\n/data/local/a/\n/data/local/x*\n")
    assert inbox.inbox_folder(tmp_path / "repo", named) == Path(os.path.normpath(tmp_path / "repo" / named))


@pytest.mark.parametrize(
    "named", ["", ".", "..", "/", "data/local", "data/local/", "data", ".git", "data/sources", "data/local/../pocket"]
)
def test_a_folder_with_files_of_the_project_is_not_one_in_which_rows_arrive(tmp_path: Path, named: str) -> None:
    """Otherwise the inbox would move params.yaml, the data set or the git index."""
    with pytest.raises(
        ParameterError, match=r"^params\.yaml: retrain\.incoming is '.*'; expected a folder below data/local"
    ):
        inbox.inbox_folder(tmp_path / "repo", named)


@pytest.mark.parametrize("ignored", [None, "", "/data/local/in\n", "/data/local/incoming\n/data/pocket\n"])
def test_a_folder_whose_files_are_inputs_of_the_pipeline_is_no_inbox(tmp_path: Path, ignored: str | None) -> None:
    """DVC would see each new file there as a change during the retraining, whose result would be lost."""
    if ignored is not None:
        (tmp_path / ".dvcignore").write_text(ignored)
    with pytest.raises(ParameterError, match=r"retrain\.incoming is in .* the line /data/local/in2 to \.dvcignore, or"):
        inbox.inbox_folder(tmp_path, "data/local/in2/new")


def test_a_query_that_fails_is_no_empty_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("adbc_driver_sqlite", reason="requires the extra sql")
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE said (text TEXT)")
    connection.close()
    monkeypatch.setattr(inbox, "check_ignored", lambda *_: None)
    monkeypatch.chdir(tmp_path)

    def query(text: str) -> list[Path]:
        settings = RetrainSettings(database=Query(url="sqlite:///x.db", query=text))
        return ingest.query_database(tmp_path, settings, tmp_path / "rows.parquet")

    assert query("SELECT text FROM said") == []
    with pytest.raises(DataError, match=r"the query fails: .*overflow"):
        query("SELECT abs(-9223372036854775808) AS text")


@pytest.mark.parametrize("path", ["data/local/x.db", "{root}/data/local/x.db"])
def test_a_database_that_is_an_input_of_the_pipeline_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "data" / "local").mkdir(parents=True)
    (tmp_path / "data" / "local" / "x.db").touch()
    url = f"sqlite:///{path.format(root=tmp_path)}"
    settings = RetrainSettings(database=Query(url=url, query="SELECT text FROM said"))
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(ParameterError, match=r"retrain\.database\.url is in .* the line /data/local/x\.db\* to"),
    ):
        patch.chdir(tmp_path)
        ingest.query_database(tmp_path, settings, tmp_path)


def test_a_reference_without_its_histograms_is_said(tmp_path: Path) -> None:
    kept = {"labels": [], "ngrams": {"weights": [], "mean": []}, "histograms": {}}
    (tmp_path / "reference.json").write_text(json.dumps(kept))
    with pytest.raises(DataError, match=r"reference\.json lacks confidence, label, length, likeness, predicted, unkn"):
        drift.measure(tmp_path, 1, drift.NewTexts([], [], 0), 0.2)
