"""Every format of tables is read alike by `add` and the pipeline, `fit`, the inbox and `predict`."""

from __future__ import annotations

import bz2
import datetime
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epigram.core import extras
from epigram.core.errors import DataError, ParameterError
from epigram.core.extras import MissingPackageError
from epigram.core.limits import Limits
from epigram.data import packed
from epigram.data.corpus import read_corpus
from epigram.data.growing_dataset import describe
from epigram.data.incoming_rows import read_file
from epigram.data.sources import archives
from epigram.data.sources.add import add_source
from epigram.data.sources.fetch import Fetcher
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import File, Source, read_source
from epigram.data.tables import Options, detect, open_table, reader_of
from epigram.fitting.inputs import write_raw
from epigram.runner.retraining.inbox import _numbered

ROWS = [("good, really", "1"), ("很好", "1"), ('a "bad"\nfilm', "0"), ("so-so", "2")]
OBJECTS = [{"text": text, "label": int(label)} for text, label in ROWS]
CSV = pl.DataFrame(ROWS, schema=["text", "label"], orient="row").write_csv()
TSV = pl.DataFrame(ROWS, schema=["text", "label"], orient="row").write_csv(separator="\t")
JSONL = "".join(f"{json.dumps(row)}\n" for row in OBJECTS)


def new_workbook(path: Path) -> Any:
    pytest.importorskip("fastexcel", reason="requires the extra excel")
    writer = pytest.importorskip("xlsxwriter", reason="requires xlsxwriter")
    return writer.Workbook(path, {"default_date_format": "yyyy-mm-dd"})


def workbook(path: Path, *sheets: list[list[Any]], names: list[str] | None = None) -> Path:
    """Write a workbook with one sheet for each of `sheets`, the cells of its rows."""
    with new_workbook(path) as book:
        for number, rows in enumerate(sheets):
            sheet = book.add_worksheet(names[number] if names else None)
            for place, row in enumerate(rows):
                sheet.write_row(place, 0, row)
    return path


FORMATS: dict[str, Callable[[Path], object]] = {
    "a.csv.gz": lambda path: path.write_bytes(gzip.compress(CSV.encode())),
    "a.TSV.GZ": lambda path: path.write_bytes(gzip.compress(TSV.encode())),
    "gbk.csv.gz": lambda path: path.write_bytes(gzip.compress(CSV.encode("gb18030"))),
    "a.jsonl.gz": lambda path: path.write_bytes(gzip.compress(JSONL.encode())),
    "a.json.gz": lambda path: path.write_bytes(gzip.compress(json.dumps(OBJECTS).encode("utf-16"))),
    "rows.json": lambda path: path.write_text(json.dumps(OBJECTS, indent=1)),
    "columns.json": lambda path: path.write_text(
        json.dumps({"text": [text for text, _ in ROWS], "label": [float(label) for _, label in ROWS]})
    ),
    "lines.json": lambda path: path.write_text(JSONL),
    "a.xlsx": lambda path: workbook(path, [["text", "label"], *([text, float(label)] for text, label in ROWS)]),
}


def added(file: Path, root: Path, options: Options | None = None, **columns: Any) -> Source:
    """Add a file to the project in `root` and return its description."""
    columns = {"name": "mine", "text": "text", "label": "label"} | columns
    return read_source(add_source(file, root=root, options=options, **columns).path)


def rows_of(source: Source, root: Path) -> pl.DataFrame:
    """Fetch and read a source as the stages do."""
    for file in source.files:
        Fetcher(root / "downloads", DownloadSettings()).fetch(
            File(path=file.path, local=str(root / str(file.local)), sha256=file.sha256), root / "raw"
        )
    return read_corpus(source, root / "raw")


@pytest.mark.parametrize("name", FORMATS)
def test_every_reader_of_files_reads_a_format(name: str, tmp_path: Path) -> None:
    FORMATS[name](file := tmp_path / name)
    source = added(file, tmp_path)
    assert (source.labels, source.task) == (["0", "1", "2"], "single")
    assert rows_of(source, tmp_path).select("text", "label").rows() == ROWS
    write_raw(file, None, text="text", label="label", language=None, folder=tmp_path / "fit")
    fitted = read_corpus(read_source(tmp_path / "fit/source.json"), tmp_path / "fit")
    assert fitted.select("text", "label").rows() == ROWS
    for base in ({"reader": "csv", "separator": ";"}, source.read):  # of another format, and of the same one
        mine = Source(**{**SOURCE, "read": base | {"text": "text", "label": "label"}})
        assert read_file(file, mine).select("text", "label").rows() == ROWS
    table = open_table(file)
    assert (table.columns, table.rows) == (["text", "label"], 4)
    assert pl.concat(table.chunks())["text"].to_list() == [text for text, _ in ROWS]


@pytest.mark.parametrize(
    ("name", "stem", "suffix"),
    [("a.b.CSV", "a.b", ".csv"), ("a.b.csv.GZ", "a.b", ".csv.gz"), ("a.gz", "a", ".gz"), ("a", "a", "")],
)
def test_a_compressed_file_has_both_suffixes(name: str, stem: str, suffix: str) -> None:
    assert (packed.file_stem(Path(name)), packed.file_suffix(Path(name))) == (stem, suffix)
    assert _numbered(Path(name), 2).endswith(f"{stem}-2{suffix}")


SOURCE = {"name": "base", "about": "", "language": "en", "task": "single", "licence": "", "files": []}


def read(file: Path, **options: Any) -> list[tuple[Any, ...]]:
    """Return lines, texts and labels of a table."""
    reader = reader_of(detect(file, options))
    return pl.concat(reader.read(file)).select("line", "text", "label").rows()


def test_cells_of_a_workbook_are_texts_and_labels_as_excel_shows_them(tmp_path: Path) -> None:
    with new_workbook(file := tmp_path / "a.xlsx") as book:
        sheet = book.add_worksheet()
        cells: dict[str, Any] = {
            "B2": "text", "C2": " label ", "D2": "text", "B3": "good", "C3": 1.0, "B4": 2.50, "C4": 0.1 + 0.2,
            "B6": datetime.datetime(2024, 1, 31), "C6": datetime.datetime(2024, 1, 31, 13, 30), "C7": True,
            "B8": "=A1&B1", "C8": 10**15, "B9": "  padded ", "C9": "01", "D9": "other", "B10": "", "C10": "#N/A",
            "B11": "",
        }  # fmt: skip
        for cell, value in cells.items():
            if isinstance(value, str) and value.startswith("="):
                sheet.write_formula(cell, value, None, "stored value")
            elif isinstance(value, str):
                sheet.write_string(cell, value)
            else:
                sheet.write(cell, value)
    reader = reader_of(detect(file, {}))
    lines, table = next(reader.tables(file))
    assert table.columns == ["text", "label", "text_duplicated_0"]
    assert [(line, *row[:2]) for line, row in zip(lines, table.rows(), strict=True)] == [
        (3, "good", "1"),
        (4, "2.5", "0.3"),
        (6, "2024-01-31", "2024-01-31 13:30:00"),
        (7, None, "true"),
        (8, "stored value", "1000000000000000"),
        (9, "  padded ", "01"),
        (10, "", "#N/A"),
    ]


def test_a_repeated_column_name_gets_the_suffix_that_it_has_in_a_csv_file(tmp_path: Path) -> None:
    header, row = ["text", "label", "text", "text", "text_duplicated_0"], ["a", "x", "b", "c", "d"]
    book = workbook(tmp_path / "a.xlsx", [header, row])
    (tmp_path / "a.csv").write_text(f"{','.join(header)}\n{','.join(row)}\n")
    _, table = next(reader_of(detect(book, {})).tables(book))
    _, same = next(reader_of(detect(tmp_path / "a.csv", {})).tables(tmp_path / "a.csv"))
    assert table.columns == same.columns and table.rows() == same.rows() == [tuple(row)]


def test_the_sheet_with_the_rows_is_read_and_one_of_several_is_named(tmp_path: Path) -> None:
    table = [["text", "label"], ["good", "x"], ["bad", "y"]]
    rows = [(2, "good", "x"), (3, "bad", "y")]
    assert read(workbook(tmp_path / "empty.xlsx", [], table, [])) == rows
    two = workbook(tmp_path / "two.xlsx", [["notes"]], table, names=["about", "数据"])
    with pytest.raises(DataError, match=r"two\.xlsx has the sheets 'about', '数据'; use --sheet 'about'"):
        open_table(two)
    with pytest.raises(DataError, match=r"has the sheets 'about', '数据'; use --sheet"):
        added(two, tmp_path)
    assert read(two, sheet="数据") == rows
    source = added(two, tmp_path, {"sheet": "数据"})
    assert (source.read["sheet"], rows_of(source, tmp_path)["text"].to_list()) == ("数据", ["good", "bad"])
    assert read_file(two, source)["text"].to_list() == ["good", "bad"]
    with pytest.raises(ParameterError, match="has no sheet 'x'; its sheets are 'about', '数据'"):
        read(two, sheet="x")
    FORMATS["rows.json"](tmp_path / "rows.json")
    with pytest.raises(ParameterError, match=r"--sheet does not apply to .*rows\.json"):
        open_table(tmp_path / "rows.json", {"sheet": "x"})


def test_several_text_columns_are_joined(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("title;body, more;label\nnew;good;1\n;bad;0\nold;;1\n")
    source = added(tmp_path / "a.csv", tmp_path, text=["title", "body, more"])
    assert (source.read["text"], source.columns_of_text, source.join) == (["title", "body, more"],) * 2 + (" ",)
    assert rows_of(source, tmp_path)["text"].to_list() == ["new good", "bad", "old"]
    assert added(tmp_path / "a.csv", tmp_path, text=["title"], name="one").read["text"] == "title"
    base = replace(source, read=source.read | {"join": "\n"})
    grown = describe(base, ["0", "1"], "mine_live")
    again = Source(**grown)
    assert (again.columns_of_text, again.join, again.read["text"]) == (["title", "body, more"], "\n", "text")
    assert "text_columns" not in describe(replace(base, read={"reader": "csv"}), ["0", "1"], "mine_live")


FOLDER = {
    "train/pos/1.txt": "a fine film\n", "train/neg/1.txt": "dull…", "train/neg/2": "badly made", "test/pos/9": "good",
    "train/unsup/5.txt": "a film", "train/urls.txt": "x", "README": "x", ".git/pos/x": "x", "train/pos/.DS_Store": "x",
}  # fmt: skip


def folder(root: Path, files: dict[str, str], encoding: str = "utf-8") -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding)
    return root


def test_a_folder_of_texts_has_a_folder_for_each_label_and_perhaps_for_each_split(tmp_path: Path) -> None:
    reviews = folder(tmp_path / "reviews", FOLDER)
    (reviews / "train/pos/link").symlink_to(reviews / "README")
    found = add_source(reviews, name="mine", text="text", label="label", root=tmp_path)
    assert found.notes[:2] == [
        "texts without a label are left out: 1, such as train/unsup/5.txt",
        "files that are in no folder of a label are left out: 2, such as README",
    ]
    rows = [("badly made", "neg", "train"), ("dull…", "neg", "train"), ("a fine film", "pos", "train")]
    frame = rows_of(read_source(found.path), tmp_path).select("text", "label", "split")
    assert sorted(frame.rows()) == sorted([("good", "pos", "test"), *rows])
    write_raw(reviews, None, text="text", label="label", language=None, folder=tmp_path / "fit")
    raw = read_corpus(read_source(tmp_path / "fit/source.json"), tmp_path / "fit")
    assert raw.select("text", "label", "split").equals(frame)
    flat = folder(tmp_path / "flat", {"好/1.txt": "很好，下次还来", "坏/1.txt": "服务态度很差，不会再来"}, "gb18030")
    labels = rows_of(added(flat, tmp_path, name="flat"), tmp_path).select("text", "label", "split").rows()
    assert labels == [("服务态度很差，不会再来", "坏", None), ("很好，下次还来", "好", None)]
    named = added(
        folder(tmp_path / "sjis", {"a/1": "ありがとう", "b/1": "だめ"}, "cp932"),
        tmp_path,
        {"encoding": "cp932"},
        name="sjis",
    )
    assert rows_of(named, tmp_path)["text"].to_list() == ["ありがとう", "だめ"]
    with pytest.raises(DataError, match="empty has no texts in folders of labels; expected LABEL/FILE"):
        added(folder(tmp_path / "empty", {"1.txt": "x", "train/1.txt": "y"}), tmp_path, name="empty")


def bomb(path: Path) -> None:
    """Write a file with 8 MB of spaces in a few kB."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(b"text,label\n" + b" " * (8 << 20)))
    else:
        with new_workbook(path) as book:
            sheet = book.add_worksheet()
            for row in range(2000):
                sheet.write_string(row, 0, " " * 8)
                sheet.set_row(row, None, None, {"collapsed": True})


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut.csv.gz": (lambda path: path.write_bytes(gzip.compress(CSV.encode() * 99)[:60]), "is not a complete gzip file"),
    "plain.csv.gz": (lambda path: path.write_text(CSV), "is not a complete gzip file"),
    "empty.csv.gz": (lambda path: path.write_bytes(gzip.compress(b"\xef\xbb\xbf")), "is empty"),
    "bomb.csv.gz": (bomb, "possibly a decompression bomb"),
    "a.csv.bz2": (lambda path: path.write_bytes(bz2.compress(CSV.encode())), "is compressed; unpack it"),
    "packed.csv": (lambda path: path.write_bytes(gzip.compress(CSV.encode())), r"a table with \.gz"),
    "scalar.json": (lambda path: path.write_text("3"), "is not a table in JSON; expected an array of objects"),
    "mixed.json": (lambda path: path.write_text('[{"text": "a"}, 1]'), "is not a table in JSON"),
    "cut.json": (lambda path: path.write_text('[{"text": "a"}'), "is not valid JSON"),
    "twice.json": (lambda path: path.write_text('[{"text": "a", "text": "b"}]'), "has the key 'text' twice"),
    "lengths.json": (lambda path: path.write_text('{"text": ["a"], "label": []}'), "has lists of different lengths"),
    "a.xlsx": (lambda path: path.write_text(CSV), "is not an Excel workbook"),
    "cut.xlsx": (lambda path: path.write_bytes(workbook(path, [["text"], ["a"]]).read_bytes()[:900]), "corrupt"),
    "bomb.xlsx": (bomb, "unpacks to more than the size limit"),
    "none.xlsx": (lambda path: workbook(path, [], []), "has no rows"),
    "unnamed.xlsx": (lambda path: workbook(path, [["text"], ["a"], ["b", "x"]]), "row 3 has a value in a column"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_read_gets_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "bomb" in name:
        for module in (packed, archives):
            monkeypatch.setattr(module, "LIMITS", small := Limits(ratio=3, free=1 << 12))
        monkeypatch.setattr(archives.iter_members, "__defaults__", (small,))
    write, message = BROKEN[name]
    write(tmp_path / name)
    with pytest.raises((DataError, ParameterError), match=message) as caught:
        open_table(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_workbook_without_fastexcel_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    (file := tmp_path / "a.xlsx").write_bytes(b"PK\3\4")
    with pytest.raises(MissingPackageError, match=r"a\.xlsx, an Excel workbook, needs fastexcel.*pip install.*excel"):
        open_table(file)
