"""The registry of readers, research formats, and any bytes."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epigram.core.errors import DataError, EpigramError, InputMissingError, ParameterError
from epigram.data.corpus import read_corpus
from epigram.data.incoming_rows import read_file
from epigram.data.readers import KINDS, Reader, labels_tokens, register
from epigram.data.sources.add import add_source
from epigram.data.sources.source import File, Source, load_source, read_source
from epigram.data.tables import Options, TableReader, open_table

SOURCE = Source(
    name="toy", about="", language="en", task="single", licence="none", files=[File(path="a.txt", local="x")]
)


def test_a_source_names_a_reader_as_its_file_is_named() -> None:
    assert list(KINDS) == [
        "conll", "csv", "excel", "json", "json_files", "jsonl", "label_studio", "lines", "m2",
        "parquet", "posts", "reuters", "trees",
    ]  # fmt: skip
    assert all(issubclass(KINDS[name], Reader) for name in KINDS)


def test_a_new_reader_needs_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KINDS, "_parts", dict(KINDS._parts))

    @register("reversed")
    @dataclass(frozen=True, kw_only=True)
    class Reversed(Reader):
        """Reader for a file whose text is written backwards."""

        label: str

        def read(self, path: Path) -> Iterator[pl.DataFrame]:
            yield pl.DataFrame({"line": [1], "text": [path.read_text()[::-1]], "label": [self.label]})

    (tmp_path / "a.txt").write_text("doog")
    source = replace(SOURCE, read={"reader": "reversed", "label": "pos"})
    assert read_corpus(source, tmp_path).select("text", "label").rows() == [("good", "pos")]
    with pytest.raises(ParameterError, match="unknown reader 'revers'; did you mean 'reversed'"):
        read_corpus(replace(SOURCE, read={"reader": "revers"}), tmp_path)


@pytest.mark.parametrize(
    ("read", "file", "labelled"),
    [
        ({"reader": "conll"}, {}, True),
        ({"reader": "m2", "sentence": None}, {}, True),
        ({"reader": "none"}, {"reader": "conll"}, True),
        ({"reader": "csv"}, {}, False),
        ({"reader": "csv", "spans": "marked"}, {}, True),
        ({"reader": "trees"}, {"token_names": {"0": "NEG"}}, True),
        ({"reader": "trees"}, {}, False),
        ({"reader": "unheard_of"}, {}, False),
        ({}, {}, False),
    ],
)
def test_token_labels_come_from_the_format_or_from_an_option(
    read: dict[str, Any], file: dict[str, Any], *, labelled: bool
) -> None:
    files = [File(path="b", local="y"), File(path="a", local="x", read=file)]
    assert labels_tokens(replace(SOURCE, read=read, files=files)) == labelled


def test_a_new_format_serves_the_pipeline_add_the_inbox_and_predict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KINDS, "_parts", dict(KINDS._parts))

    @register("pairs")
    @dataclass(frozen=True, kw_only=True)
    class Pairs(TableReader):
        """Reader for lines LABEL=TEXT."""

        suffixes: ClassVar[dict[str, Options]] = {".pairs": {}}

        def tables(self, path: Path, only: Sequence[str] | None = None) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
            rows = [line.split("=") for line in path.read_text().splitlines()]
            frame = pl.DataFrame(rows, schema=["label", "text"], orient="row")
            yield pl.int_range(1, frame.height + 1, eager=True), frame

    file, rows = tmp_path / "a.pairs", [("good", "pos"), ("bad", "neg")]
    file.write_text("pos=good\nneg=bad\n")
    added = read_source(add_source(file, name="mine", text="text", label="label", root=tmp_path).path)
    assert read_corpus(added, tmp_path / "data/local").select("text", "label").rows() == rows
    found = read_file(file, replace(SOURCE, read={"reader": "csv"}))
    assert found.select("text", "label", "line").rows() == [(*row, line) for line, row in enumerate(rows, 1)]
    table = open_table(file)
    assert (table.columns, table.rows, pl.concat(table.chunks()).rows()) == (
        ["label", "text"],
        2,
        [row[::-1] for row in rows],
    )


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_blank_line_is_no_row_in_any_use(suffix: str, tmp_path: Path) -> None:
    mark = "\t" if suffix == "tsv" else ","
    file = tmp_path / f"a.{suffix}"
    file.write_text("id,text,label\n1,good,pos\n\n2,,neg\n\n".replace(",", mark))
    table = open_table(file)
    assert (table.rows, pl.concat(table.chunks()).rows()) == (2, [("1", "good", "pos"), ("2", "", "neg")])
    found = read_file(file, replace(SOURCE, read={"reader": "csv"}))
    assert found.select("text", "label", "line").rows() == [("good", "pos", 2), ("", "neg", 4)]


OPTIONS: dict[str, dict[str, Any]] = {
    "json_files": {"lists": {"a": "x"}},
    "lines": {"file_label": "a"},
    "m2": {"sentence": {"default": "c", "plain": "right", "marked": "wrong"}},
    "conll": {"sentence": {"default": "O", "plain": "none", "marked": "some"}},
}
SEEDS = [
    b"text,label\n",
    b'"text","label"\n"a","b"\n',
    b'{"text": "a", "label": ["b"]}\n',
    b'{"text": ["a"], "label": ["b"], "spans": [[0, 1]]}\n',
    b"word\tO\n\nword\tB\n",
    b"S a b\nA 0 1|||R:X|||c|||REQUIRED|||-NONE-|||0\n",
    b"(3 (2 good) (2 film))\n",
    b"PAR1",
    "好看\n".encode(),
    "很好看".encode("gbk"),
]
PIECES = st.lists(st.one_of(st.sampled_from(SEEDS), st.binary(max_size=40), st.text(max_size=20).map(str.encode)))


def answer(folder: Path, data: bytes, name: str, task: str, extra: dict[str, Any]) -> None:
    (folder / "x").write_bytes(data)
    given: Any = {"name": "toy", "about": "", "language": "en", "licence": "", "task": task}
    files = [File(path="x", local="x")]
    try:
        frame = read_corpus(Source(files=files, read={"reader": name} | OPTIONS.get(name, {}) | extra, **given), folder)
    except EpigramError as error:
        assert str(error).strip()
    else:
        assert "text" in frame.columns


@pytest.mark.parametrize("name", sorted(KINDS))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES, task=st.sampled_from(["single", "multi", "tokens"]))
def test_random_bytes(tmp_path: Path, name: str, pieces: list[bytes], task: str) -> None:
    answer(tmp_path, b"".join(pieces), name, task, {})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=PIECES,
    encoding=st.sampled_from(["utf-8", "gbk", "utf-16", "latin-1", "cp1252", "utf-7", "big5"]),
    quote=st.sampled_from(['"', None]),
)
def test_random_bytes_in_any_encoding(tmp_path: Path, pieces: list[bytes], encoding: str, quote: str | None) -> None:
    data = b"text,label\n" + b"".join(pieces)
    answer(tmp_path, data, "csv", "single", {"encoding": encoding, "quote": quote})
    answer(tmp_path, b"".join(pieces), "jsonl", "single", {"encoding": encoding, "spans": "text"})


SOURCES = Path(__file__).parents[3] / "data/sources"

CONLL_2003 = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP O

It PRP I-NP O
rained VBD I-VP O
"""
CONLLU = """# text = vámonos al mar
1-2	vámonos	_	_	_	_	_	_	_	_
1	vamos	ir	VERB	_	_	0	root	_	_
2	nos	nosotros	PRON	_	_	1	obj	_	_
2.1	x	x	X	_	_	_	_	_	_

1	Sí	sí	INTJ	_	_	0	root	_	_
"""
M2 = """S I has a apple on Monday
A 1 2|||R:VERB:SVA|||have|||REQUIRED|||-NONE-|||0
A 2 3|||R:DET|||an|||REQUIRED|||-NONE-|||0
A 6 6|||M:PUNCT|||.|||REQUIRED|||-NONE-|||0

S All is well .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0
"""
REUTERS = """<!DOCTYPE lewis SYSTEM "lewis.dtd">
<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" CGISPLIT="TRAINING-SET" OLDID="1" NEWID="1">
<TOPICS><D>grain</D><D>wheat</D></TOPICS>
<TEXT>&#2;
<TITLE>WHEAT &amp; CORN</TITLE>
<DATELINE>X</DATELINE><BODY>Prices rose.
&#3;</BODY></TEXT>
</REUTERS>
<REUTERS TOPICS="YES" LEWISSPLIT="TEST" NEWID="2"><TOPICS></TOPICS><TEXT TYPE="UNPROC">&#2;All text</TEXT></REUTERS>
<REUTERS TOPICS="YES" LEWISSPLIT="NOT-USED" NEWID="3"><TOPICS><D>gold</D></TOPICS><TEXT>x</TEXT></REUTERS>
<REUTERS TOPICS="NO" LEWISSPLIT="TRAIN" NEWID="4"><TOPICS></TOPICS><TEXT>x</TEXT></REUTERS>
"""


def read(folder: Path, content: str, read: dict[str, Any], task: str = "single", **changes: Any) -> pl.DataFrame:
    (folder / "x").write_text(content, encoding="utf-8")
    files = [File(path="x", local="x")]
    given = {"name": "toy", "about": "", "language": "en", "task": task, "licence": "", "files": files, "read": read}
    return read_corpus(Source(**given | changes), folder)


def tar(path: Path, files: dict[str, str]) -> None:
    with tarfile.open(path, "w") as packed:
        for name, content in files.items():
            item = tarfile.TarInfo(name)
            item.size = len(content.encode())
            packed.addfile(item, io.BytesIO(content.encode()))


def test_conll_2003_as_its_source_reads_it(tmp_path: Path) -> None:
    frame = read(tmp_path, CONLL_2003, load_source("conll2003", SOURCES).read)
    assert frame.select("text", "label", "line", "tokens", "token_labels").rows() == [
        ("EU rejects German call", "entity", 3, ["EU", "rejects", "German", "call"], ["ORG", "O", "MISC", "O"]),
        ("It rained", "no entity", 8, ["It", "rained"], ["O", "O"]),
    ]


def test_fce_in_m2_as_its_source_reads_it(tmp_path: Path) -> None:
    frame = read(tmp_path, M2, load_source("fce", SOURCES).read)
    assert frame["label"].to_list() == ["incorrect", "correct"]
    assert frame["token_labels"].to_list() == [["O", "FORM", "FUNC", "O", "O", "ORTH"], ["O"] * 4]
    assert frame["line"].to_list() == [1, 6]
    for bad in ("S a b\nA 1 9|||R:X|||x|||R|||-|||0\n", "S a b\nA one|||R:X\n", "hello\n"):
        with pytest.raises(DataError, match="line"):
            read(tmp_path, bad, {"reader": "m2"}, "tokens")


@pytest.mark.parametrize(("annotator", "labels"), [("0", ["i", "c", "c"]), ("1", ["c", "i", "c"])])
def test_only_the_edits_of_the_chosen_annotator_are_read(tmp_path: Path, annotator: str, labels: list[str]) -> None:
    edits = [f"A {n} {n + 1}|||R:X|||x|||REQUIRED|||-NONE-|||{n}\n" for n in (0, 1)]
    frame = read(tmp_path, "S a b c\n" + "".join(edits), {"reader": "m2", "annotator": annotator}, "tokens")
    assert frame["token_labels"].to_list() == [labels]


def test_fce_as_token_tab_label(tmp_path: Path) -> None:
    options = {"reader": "conll", "sentence": {"default": "c", "plain": "correct", "marked": "incorrect"}}
    frame = read(tmp_path, "I\tc\nhas\ti\n\nFine\tc\n", options)
    assert frame.select("text", "label").rows() == [("I has", "incorrect"), ("Fine", "correct")]
    with pytest.raises(DataError, match="line 2 has too few columns, expected at least 2: 'has'"):
        read(tmp_path, "I\tc\nhas\n", options)


def test_conllu_leaves_out_ranges_and_empty_nodes(tmp_path: Path) -> None:
    options = {"reader": "conll", "token": 1, "token_label": 3, "comment": "#", "numbered": True}
    frame = read(tmp_path, CONLLU, options, "tokens")
    assert frame.columns == ["text", "split", "file", "line", "tokens", "token_labels"]
    assert frame["tokens"].to_list() == [["vamos", "nos"], ["Sí"]]
    assert frame["token_labels"].to_list() == [["VERB", "PRON"], ["INTJ"]]


def test_sentiment_trees(tmp_path: Path) -> None:
    tree = "(3 (2 (2 -LRB-) (3 Good)) (1 and\\/or))\n"
    options = {**load_source("sst", SOURCES).read, "phrases": None}
    frame = read(tmp_path, tree, options)
    assert frame.select("text", "label", "token_labels").row(0) == ("( Good and/or", "P", ["O", "P", "N"])
    with pytest.raises(DataError, match="line 2 is not a tree"):
        read(tmp_path, tree + "good film\n", {"reader": "trees"})


@pytest.mark.parametrize(
    ("tree", "labels"),
    [
        ("(2 (2 a) (2 b))", "OO"),
        ("(3 (2 a) (3 (2 very) (3 good)))", "OOP"),  # the leaf is smaller than the phrase, and has its label
        ("(3 (2 a) (1 (2 not) (2 it)))", "PPP"),  # positive over negative
        ("(1 (2 a) (3 (2 not) (2 it)))", "NPP"),
        ("(1 (2 (2 a) (2 b)) (2 (2 c) (2 d)))", "OOOO"),  # a phrase of four words
        ("(2 (1 (2 a) (1 (2 b) (2 c))) (0 d))", "ONNN"),
        ("(4 (0 bad) (4 (2 film) (2 ever)))", "NPP"),
    ],
)
def test_a_word_has_the_label_of_its_smallest_phrases(tree: str, labels: str, tmp_path: Path) -> None:
    frame = read(tmp_path, f"{tree}\n", load_source("sst", SOURCES).read)
    assert frame["token_labels"].to_list() == [list(labels)]


def test_a_tree_with_a_bracket_too_much_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 2 has a bracket too much: '\(3 \(2 a\)\)\)'"):
        read(tmp_path, "(3 (2 a) (2 b))\n(3 (2 a)))\n", load_source("sst", SOURCES).read)


def test_reuters_modapte(tmp_path: Path) -> None:
    tar(tmp_path / "x", {"r/reut2-000.sgm": REUTERS, "r/lewis.dtd": "<!-- -->"})
    files = [File(path="x", local="x")]
    splits: Any = {"train": ["TRAIN"], "test": ["TEST"]}
    given: Any = {"name": "toy", "about": "", "language": "en", "licence": "", "files": files, "splits": splits}
    frame = read_corpus(Source(task="multi", read={"reader": "reuters"}, **given), tmp_path)
    assert frame.select("text", "labels", "split", "file", "line").rows() == [
        ("WHEAT & CORN\nPrices rose.", ["grain", "wheat"], "train", "r/reut2-000.sgm", 2),
        ("All text", [], "test", "r/reut2-000.sgm", 9),
    ]
    unmapped = read_corpus(Source(task="multi", read={"reader": "reuters"}, **given | {"splits": {}}), tmp_path)
    assert unmapped["split"].to_list() == ["train", "test"]
    tar(tmp_path / "x", {"r/reut2-000.sgm": "nothing"})
    with pytest.raises(DataError, match="has no <REUTERS> document"):
        read_corpus(Source(task="multi", read={"reader": "reuters"}, **given), tmp_path)


def test_a_tar_of_posts(tmp_path: Path) -> None:
    tar(tmp_path / "x", {"d-train/sport/1": "Goal!", "d-test/art/2": "Paint"})
    files = [File(path="x", local="x")]
    splits: Any = {"train": ["d-train"], "test": ["d-test"]}
    given: Any = {"name": "toy", "about": "", "language": "en", "licence": "", "files": files, "splits": splits}
    frame = read_corpus(Source(task="single", read={"reader": "posts"}, **given), tmp_path)
    assert frame.rows() == [
        ("Goal!", "sport", "train", "d-train/sport/1", 1),
        ("Paint", "art", "test", "d-test/art/2", 1),
    ]
    whole = Source(task="single", read={"reader": "posts"}, **given | {"splits": {}})
    assert read_corpus(whole, tmp_path)["split"].to_list() == [None, None], "folders of any name are no splits"
    tar(tmp_path / "x", {"train/sport/1": "Goal!", "test/art/2": "Paint"})
    assert read_corpus(whole, tmp_path)["split"].to_list() == ["train", "test"]


def test_json_files_with_labels_in_lists(tmp_path: Path) -> None:
    tar(tmp_path / "posts.tar", {"p/1.json": json.dumps({"text": "谣言"}), "p/2.json": json.dumps({"text": "真"})})
    (tmp_path / "true.txt").write_text("2.json\n")
    (tmp_path / "false.txt").write_text("1.json\n")
    reading: Any = {"reader": "json_files", "lists": {"rumor": "false.txt", "true": "true.txt"}}
    files = [File(path="posts.tar", local="x")]
    source = Source(name="t", about="", language="zh", task="single", licence="", files=files, read=reading)
    assert read_corpus(source, tmp_path).select("text", "label").rows() == [("谣言", "rumor"), ("真", "true")]
    (tmp_path / "true.txt").write_text("2.json\n1.json\n")
    with pytest.raises(DataError, match=r"lists 1\.json, which the list of 'rumor' also contains"):
        read_corpus(source, tmp_path)
    (tmp_path / "true.txt").write_text("3.json\n")
    with pytest.raises(DataError, match=r"p/2\.json is not in any list of labels"):
        read_corpus(source, tmp_path)
    (tmp_path / "true.txt").unlink()
    with pytest.raises(InputMissingError, match=r"true\.txt is missing"):
        read_corpus(source, tmp_path)


def test_parallel_lists(tmp_path: Path) -> None:
    options = {"reader": "json", "text": "content", "label": "labels"}
    frame = read(tmp_path, json.dumps({"content": ["a", "b"], "labels": [["x"], ["x", "y"]]}), options, "multi")
    assert frame.select("text", "labels", "line").rows() == [("a", ["x"], 1), ("b", ["x", "y"], 2)]
    for bad in ('{"content": ["a"], "labels": []}', "[1]", "{", '{"content": [["b"], "a"], "labels": [["x"], ["y"]]}'):
        with pytest.raises(DataError, match="x "):
            read(tmp_path, bad, options, "multi")


def test_lines_take_the_files_label(tmp_path: Path) -> None:
    frame = read(tmp_path, "one\x85 film \r\ntwo\u2028halves\n", {"reader": "lines", "file_label": "positive"})
    assert frame["text"].to_list() == ["one\x85 film", "two\u2028halves"]
    assert set(frame["label"]) == {"positive"}
