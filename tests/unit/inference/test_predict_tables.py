"""Tests of `epigram predict` on tables: every row and column is kept, and predictions are correct."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from epigram.cli import app as cli
from epigram.cli.models.predict import count_lines
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.data.tables import TableFile, open_table
from epigram.inference import table_writer, tables
from epigram.inference.predictors.predictor import Predictor
from tests.support.linear_models import SEVERAL, TRAIN, svm
from tests.support.small_systems import LABELS as WORD_SYSTEM_LABELS

ROWS = [("007", "soup nice", "food"), ("8", "large room, really", "room"), ("9", 'a "nice"\nclerk', "staff")]
IDS, TEXTS, WANTED = (list(column) for column in zip(*ROWS, strict=True))
FORMATS = ["csv", "tsv", "jsonl", "parquet"]
READ = {
    "csv": lambda path: pl.read_csv(path, infer_schema=False, empty_string_is_null=False),
    "tsv": lambda path: pl.read_csv(path, separator="\t", infer_schema=False, empty_string_is_null=False),
    "jsonl": lambda path: pl.DataFrame([json.loads(line) for line in path.read_text("utf-8").splitlines()]),
    "parquet": pl.read_parquet,
}


def write(frame: pl.DataFrame, path: Path) -> Path:
    if path.suffix in {".csv", ".tsv"}:
        frame.write_csv(path, separator="," if path.suffix == ".csv" else "\t")
    else:
        (frame.write_parquet if path.suffix == ".parquet" else frame.write_ndjson)(path)
    return path


@pytest.mark.parametrize("given", FORMATS)
@pytest.mark.parametrize("wanted", FORMATS)
def test_rows_and_columns_stay_and_each_row_has_its_label(
    given: str, wanted: str, run: Callable[..., None], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(pl.DataFrame({"id": IDS, "review": TEXTS}), tmp_path / f"in.{given}")
    out = tmp_path / f"out.{wanted}"
    run(source, "--text", "review", "--out", out)
    found = READ[wanted](out)
    assert found.columns == ["id", "review", "label", "probability"]
    assert (found["id"].to_list(), found["review"].to_list(), found["label"].to_list()) == (IDS, TEXTS, WANTED)
    known = Predictor(model).probabilities(TEXTS).max(1).tolist()
    assert found["probability"].cast(pl.Float64).to_list() == pytest.approx(known, abs=1e-6)
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"{out}: 3 rows\n", "")


@pytest.mark.parametrize(("given", "marked"), [("utf-8-sig", True), ("utf-8", False)])
def test_a_csv_file_of_excel_gets_predictions_that_excel_reads(
    given: str, marked: bool, run: Callable[..., None], model: Path, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text("review\nsoup\n", encoding=given)
    for out in ("out.csv", "out.jsonl"):
        run(tmp_path / "in.csv", "--text", "review", "--out", tmp_path / out)
    assert (tmp_path / "out.csv").read_bytes().startswith(b"\xef\xbb\xbfreview," if marked else b"review,")
    assert (tmp_path / "out.jsonl").read_bytes().startswith(b"{")


def test_the_table_is_read_predicted_and_written_in_chunks(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epigram.data.chunks.CHUNK_SIZE", 4096)
    monkeypatch.setattr(tables, "BATCH_TEXTS", 10)
    texts = [f"{ROWS[i % 3][1].split()[0]} {'unseen ' * 20}{i}" for i in range(1000)]
    predictor, asked, read, written = Predictor(model), list[int](), list[int](), list[int]()
    answer, lines, chunks = predictor.predict, table_writer._line_writer, TableFile.chunks
    monkeypatch.setattr(predictor, "predict", lambda given, **_: (asked.append(len(given)), answer(given))[1])

    def noted(*arguments: object) -> Callable[[pl.DataFrame], None]:
        append = lines(*arguments)  # type: ignore[arg-type]
        return lambda rows: (written.append(rows.height), append(rows))[1]

    def sized(table: TableFile, text: str) -> Iterator[pl.DataFrame]:
        for chunk in chunks(table, text):
            read.append(chunk.height)
            yield chunk

    monkeypatch.setattr(table_writer, "_line_writer", noted)
    monkeypatch.setattr(TableFile, "chunks", sized)
    source = write(pl.DataFrame({"text": texts}), tmp_path / "in.csv")
    counts = tables.predict_table(predictor, source, tmp_path / "out.csv", text=["text"])
    assert (counts.rows, sum(written)) == (1000, 1000)
    assert max(asked) == max(written) == 10 and max(read) < 200
    found = READ["csv"](tmp_path / "out.csv")
    assert found["text"].to_list() == texts
    assert found["label"][:2].to_list() == ["food", "room"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_row_without_a_text_stays_and_is_counted(
    kind: str, run: Callable[..., None], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(pl.DataFrame({"text": ["soup", None, "  ", "room"]}), tmp_path / f"in.{kind}")
    run(source, "--out", tmp_path / "out.parquet")
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert found["text"].to_list() == ["soup", None, "  ", "room"]
    assert found["label"].to_list() == ["food", None, None, "room"]
    assert found["probability"].to_list()[1:3] == [0.0, 0.0]
    assert capsys.readouterr().err == "note: 2 texts are empty, without a label\n"


@pytest.mark.parametrize("given", FORMATS)
@pytest.mark.parametrize(
    ("columns", "named", "texts"),
    [
        (["title", "body", "text"], None, ["nice | soup", " | room", "clerk | "]),  # as in training
        (["body", "text"], None, ["A", "B", "C"]),  # a table without one of the columns of the training
        (["title", "body", "text"], ["body"], ["soup", "room", ""]),
        (["title", "body", "text"], ["text", "title"], ["A | nice", "B | ", "C | clerk"]),
    ],
)
def test_columns_are_joined_as_in_the_training(
    columns: list[str],
    named: list[str] | None,
    texts: list[str],
    given: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = {"title": ["nice", None, "clerk"], "body": ["soup", "room", None], "text": ["A", "B", "C"]}
    source = write(pl.DataFrame({name: table[name] for name in columns}), tmp_path / f"in.{given}")
    predictor, asked = Predictor(model), list[str]()
    predictor.text_columns, predictor.join = ["title", "body"], " | "
    answer = predictor.predict
    monkeypatch.setattr(predictor, "predict", lambda each, **_: (asked.extend(each), answer(each))[1])
    tables.predict_table(predictor, source, tmp_path / "out.parquet", text=named)
    assert asked[1:] == texts  # the first one tells whether words are labelled
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert found.columns == [*columns, "label", "probability"]
    assert found["body"].to_list()[:2] == ["soup", "room"]


@pytest.mark.parametrize("name", ["out[1].parquet", "a*/out?.parquet"])
def test_a_table_may_have_any_name(name: str, run: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    source = write(pl.DataFrame({"text": ["soup", "room"]}), tmp_path / "in[2].parquet")
    run(source, "--out", tmp_path / name)
    assert pl.read_parquet(tmp_path / name, glob=False)["label"].to_list() == ["food", "room"]


def test_truncated_texts_are_counted_on_stderr(
    run: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fits, longer = " ".join(["soup"] * 8), " ".join(["soup"] * 9)  # the model reads 8 tokens
    run(fits, longer, longer)
    said = capsys.readouterr()
    assert said.err == "note: 2 texts are truncated to 8 tokens\n"
    assert [line.split("\t")[0] for line in said.out.splitlines()] == ["food"] * 3
    source = write(pl.DataFrame({"text": [longer, fits]}), tmp_path / "in.csv")
    run(source, "--out", tmp_path / "out.csv")
    assert capsys.readouterr().err == "note: 1 text is truncated to 8 tokens\n"


def test_a_prompt_takes_room_from_a_text(tmp_path: Path) -> None:
    """A text has 24 tokens, of which the prompt takes 5."""
    from tests.support.saved_systems import saved

    predictor = Predictor(saved("bert_pta", tmp_path))
    room = 24 - len(predictor.saved.frame.prefix_ids) - len(predictor.saved.frame.suffix_ids)
    assert room < 24 and predictor.saved.labels == WORD_SYSTEM_LABELS
    answers = predictor.predict([" ".join(["w7"] * room), " ".join(["w7"] * (room + 1))])
    assert [answer.truncated for answer in answers] == [False, True]


def test_several_labels_are_lists(tmp_path: Path) -> None:
    predictor = Predictor(svm(tmp_path, "en", SEVERAL["en"], multi=True))
    source = write(pl.DataFrame({"text": ["soup room", "here", "clerk"]}), tmp_path / "in.csv")
    for kind in ("jsonl", "csv"):
        tables.predict_table(predictor, source, tmp_path / f"out.{kind}", text=["text"])
        found = READ[kind](tmp_path / f"out.{kind}")
        labels = [json.loads(each) for each in found["labels"]] if kind == "csv" else found["labels"].to_list()
        assert labels == [["food", "room"], [], ["staff"]]
    all_of_them = predictor.predict(["soup room"])[0].probabilities
    assert READ["jsonl"](tmp_path / "out.jsonl")["probabilities"][0].to_list() == pytest.approx(
        [all_of_them["food"], all_of_them["room"]]
    )


def test_words_with_labels_are_records(tmp_path: Path) -> None:
    from tests.support.saved_systems import saved

    predictor = Predictor(saved("mhal_joint", tmp_path))
    texts = ["w7 w22 w33 w44", "w25 w8"]
    tables.predict_table(
        predictor, write(pl.DataFrame({"text": texts}), tmp_path / "in.tsv"), tmp_path / "out.jsonl", text=["text"]
    )
    rows = [json.loads(line)["words"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    wanted = [[word for word in answer.words if word.label != "O"] for answer in predictor.predict(texts)]
    assert [[(w["text"], w["start"], w["label"]) for w in row] for row in rows] == [
        [(word.text, word.start, word.label) for word in row] for row in wanted
    ]
    assert any(rows)


@pytest.mark.parametrize(
    ("columns", "arguments", "said"),
    [
        ({"text": ["a"], "label": ["x"]}, ["--out", "out.csv"], "already has a column 'label'"),
        ({"review": ["a"]}, ["--text", "reviews", "--out", "out.csv"], "did you mean 'review'"),
        ({"text": ["a"]}, ["--out", "out.xlsx"], "out.xlsx: unknown table format '.xlsx'"),
        (
            {"text": ["a"]},
            ["--out", "there.csv"],
            "there.csv already exists; choose another file, or overwrite it with --force",
        ),
        ({"text": ["a"]}, [], "in.csv is a table: give its text column with --text"),
        ({"text": ["a"]}, ["--json", "--out", "out.csv"], "--out needs one table and no --json"),
        ({"text": ["a"]}, ["--text", "text"], "--text needs a table and --out: epigram predict MODEL in.csv"),
        ({"text": ["a"]}, ["--force"], "--force needs a table and --out: epigram predict MODEL in.csv"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    columns: dict[str, list[str]], arguments: list[str], said: str, model: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("there.csv").write_text("mine")
    source = write(pl.DataFrame(columns), Path("in.csv"))
    for given in ([str(source)], ["--file", str(source)]):
        monkeypatch.setattr("sys.argv", ["epigram", "predict", str(model), *given, *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.app()
        assert ended.value.code == ParameterError.code
        assert said in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["in.csv", "there.csv"]
    assert Path("there.csv").read_text() == "mine"


def test_force_overwrites_and_a_broken_table_leaves_the_old_file(
    run: Callable[..., None], model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    (tmp_path / "broken.csv").write_text("text\nsoup\nroom,clerk\n")
    with pytest.raises(DataError, match=r"broken\.csv line 3 has 2 values for 1 columns"):
        tables.predict_table(Predictor(model), tmp_path / "broken.csv", out, text=["text"], force=True)
    assert out.read_text() == "mine"
    run(write(pl.DataFrame({"text": ["soup"]}), tmp_path / "in.csv"), "--out", out, "--force")
    assert READ["csv"](out)["label"].to_list() == ["food"]


def test_a_missing_table_and_a_table_without_rows(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"absent\.csv is missing"):
        tables.predict_table(Predictor(model), tmp_path / "absent.csv", tmp_path / "out.csv", text=["text"])
    for kind in ("csv", "parquet"):
        source = write(pl.DataFrame(schema={"id": pl.String, "text": pl.String}), tmp_path / f"none.{kind}")
        tables.predict_table(Predictor(model), source, tmp_path / f"out.{kind}", text=["text"])
        found = READ[kind](tmp_path / f"out.{kind}")
        assert (found.height, found.columns) == (0, ["id", "text", "label", "probability"])


def test_other_encodings_and_lone_quotation_marks_are_read(tmp_path: Path) -> None:
    predictor = Predictor(svm(tmp_path, "zh", TRAIN["zh"]))
    (tmp_path / "in.csv").write_bytes("text,n\n饭菜好吃，真的好吃,1\n房大，房间真的大,2\n".encode("gbk"))
    tables.predict_table(predictor, tmp_path / "in.csv", tmp_path / "out.csv", text=["text"])
    assert READ["csv"](tmp_path / "out.csv")["label"].to_list() == ["food", "room"]
    (tmp_path / "in.tsv").write_text('text\tn\n房大 5" \t1\n饭"好吃\t2\n人好\t3"\n', "utf-8")
    tables.predict_table(predictor, tmp_path / "in.tsv", tmp_path / "out.jsonl", text=["text"])
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [(row["text"], row["n"], row["label"]) for row in rows] == [
        ('房大 5" ', "1", "room"), ('饭"好吃', "2", "food"), ("人好", '3"', "staff"),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_quotation_marks_of_a_table_may_be_plain_characters(kind: str, tmp_path: Path) -> None:
    """A sentence in quotation marks over two rows of a tsv file would be read as one row."""
    content = {
        "csv": 'text,label\n5" long,1\nfine,2\n',
        "tsv": 'id\ttext\n1\t"I never thought I would like it.\n2\tBut I did."\n3\tmeh\n',
    }[kind]
    wanted = {"csv": ['5" long', "fine"], "tsv": ['"I never thought I would like it.', 'But I did."', "meh"]}[kind]
    (tmp_path / f"in.{kind}").write_text(content)
    table = open_table(tmp_path / f"in.{kind}")
    assert (table.rows, table.reader.quote) == (len(wanted), None)
    assert pl.concat(table.chunks())["text"].to_list() == wanted


def test_a_quoted_text_of_a_tsv_keeps_its_line_break(tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text('id\ttext\n1\t"one\ntwo"\n2\tmeh\n')
    table = open_table(tmp_path / "in.tsv")
    assert (table.rows, pl.concat(table.chunks())["text"].to_list()) == (2, ["one\ntwo", "meh"])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            '5" long,1',
            r"""line 3 has a quote without its pair.*\nquote .* the mark twice: "5"" long"$""",
        ),
        (
            "never, closed,1",
            r"line 3 has 3 values for 2 columns: 'never, closed,1'\nquote texts with a separator",
        ),
    ],
)
def test_a_csv_that_quotes_some_texts_and_not_others_is_refused_with_advice(
    row: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text(f'text,label\n"fine",2\n{row}\n')
    with pytest.raises(DataError, match=rf"in\.csv {said}"):
        open_table(tmp_path / "in.csv")


def test_a_bar_is_shown_on_a_terminal_only(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(pl.DataFrame({"text": ["soup", "room"]}), tmp_path / "in.csv")
    for terminal in (False, True):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal)
        tables.predict_table(Predictor(model), source, tmp_path / "out.csv", text=["text"], force=True)
        assert ("2/2" in capsys.readouterr().err) is terminal


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_a_column_that_stands_twice_is_refused(
    kind: str, run: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = "," if kind == "csv" else "\t"
    (tmp_path / f"in.{kind}").write_text(mark.join(["text", "id", "id"]) + "\n" + mark.join("abc") + "\n")
    with pytest.raises(SystemExit) as end:
        run(tmp_path / f"in.{kind}", "--out", tmp_path / f"out.{kind}")
    assert end.value.code == DataError.code
    assert f"in.{kind} has two columns named 'id' (columns 2 and 3); rename one" in capsys.readouterr().err


def test_a_dangling_link_is_not_replaced_and_a_folder_is_refused_before_the_work(
    run: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("text\nsoup\n")
    (tmp_path / "link.csv").symlink_to("unmounted/out.csv")
    (tmp_path / "folder.csv").mkdir()
    for name, said in (
        ("link.csv", "link.csv already exists"),
        ("folder.csv", "folder.csv is a folder; expected a file"),
    ):
        with pytest.raises(SystemExit) as end:
            run(tmp_path / "in.csv", "--out", tmp_path / name)
        assert end.value.code == ParameterError.code
        assert said in capsys.readouterr().err
    assert (tmp_path / "link.csv").is_symlink()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"text": [b"\xff"]}, "column 'text' has the type Binary; expected text"),
        ({"text": [timedelta(1)]}, "column 'text' has the type Duration"),
        ({"text": [["a"]]}, "column 'text' has the type List(String); expected text"),
        ({"text": [{"a": "b"}]}, "column 'text' has the type Struct"),
        ({"text": ["a"], "took": [timedelta(1)]}, "a column cannot be written as .csv ('took' has the type Duration"),
        ({"text": ["a"], "raw": [[b"\xff"]]}, "a column cannot be written as .csv ('raw' has the type List(Binary)"),
    ],
)
def test_columns_that_cannot_be_read_or_written_are_named(
    columns: dict[str, list[object]],
    said: str,
    run: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pl.DataFrame(columns).write_parquet(tmp_path / "in.parquet")
    with pytest.raises(SystemExit) as end:
        run(tmp_path / "in.parquet", "--out", tmp_path / "out.csv")
    assert end.value.code == ParameterError.code
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def test_a_hundred_parts_of_a_parquet_table_keep_their_order(tmp_path: Path) -> None:
    with table_writer.table_writer(tmp_path / "out.parquet") as write:
        for row in range(101):
            write(pl.DataFrame({"id": [row]}))
    assert pl.read_parquet(tmp_path / "out.parquet")["id"].to_list() == list(range(101))


MIXED = [
    '{"id": 1, "text": "soup", "m": {"a": 1}, "x": NaN}',
    '',
    ' {"text":"room","id":2.50,"m":{"b":"é\\n"}} ',
    '{"id": 9007199254740993, "id2": true, "text": "clerk", "m": [1,  2], "b": "007", "e": null}',
    '{"id": 1e400, "text": null, "big": 123456789012345678901234567890}',
    '{ }',
]  # fmt: skip


@pytest.mark.parametrize("chunk", [1, 8 << 20])
def test_json_lines_stay_as_they_are(
    chunk: int, run: Callable[..., None], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epigram.data.chunks.CHUNK_SIZE", chunk)
    (tmp_path / "in.jsonl").write_text("\ufeff" + "\r\n".join(MIXED), encoding="utf-8")
    run(tmp_path / "in.jsonl", "--out", tmp_path / "out.jsonl")
    found = (tmp_path / "out.jsonl").read_text("utf-8").split("\n")
    wanted = [line.strip()[:-1].strip() for line in MIXED if line]
    answers = Predictor(model).predict(["soup", "room", "clerk", "", ""])
    added = [f'"label":{json.dumps(answer.label or None)},"probability":{answer.probability!r}}}' for answer in answers]
    assert found == [
        *(f"{line},{keys}" for line, keys in zip(wanted[:-1], added[:-1], strict=True)),
        "{" + added[-1],
        "",
    ]


def test_values_of_json_lines_become_strings_in_other_formats(run: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("\n".join(MIXED), encoding="utf-8")
    keys = ["id", "text", "m", "x", "id2", "b", "e", "big"]
    rows = [
        ("1", "soup", '{"a": 1}', None, None, None, None, None),
        ("2.5", "room", '{"b": "é\\n"}', None, None, None, None, None),
        ("9007199254740993", "clerk", "[1, 2]", None, "true", "007", None, None),
        ("Infinity", None, None, None, None, None, None, "123456789012345678901234567890"),
        (None,) * 8,
    ]
    for kind in ("csv", "parquet"):
        run(tmp_path / "in.jsonl", "--out", tmp_path / f"out.{kind}")
    parquet, table = pl.read_parquet(tmp_path / "out.parquet"), pl.read_csv(tmp_path / "out.csv", infer_schema=False)
    assert parquet.columns == table.columns == [*keys, "label", "probability"]
    assert parquet.select(keys).rows() == table.select(keys).rows() == rows


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ('{"text": ["a"]}', DataError, """line 2: 'text' is ["a"]; expected a string or a number"""),
        ('{"text": "a", "text": "b"}', DataError, "line 2 has the key 'text' twice"),
        ('{"text": "a", "label": "x"}', ParameterError, "already has a column 'label'"),
        ('{"text": "a"', DataError, "line 2 is not a JSON object"),
    ],
)
def test_json_lines_that_do_not_fit_are_refused(
    line: str, code: type[DataError], said: str, run: Callable[..., None], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "in.jsonl").write_text('{"text": "soup"}\n' + line + "\n")
    with pytest.raises(SystemExit) as end:
        run(tmp_path / "in.jsonl", "--out", tmp_path / "out.jsonl")
    assert (end.value.code, said in capsys.readouterr().err) == (code.code, True)
    assert not (tmp_path / "out.jsonl").exists()


def test_types_of_parquet_stay_and_bytes_are_refused_elsewhere(
    run: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pl.DataFrame(
        {"text": ["soup", "room"], "raw": [b"\xff", None], "n": [1, None], "s": [{"a": [b"x"]}, None], "t": [1.5, 2.0]},
        schema_overrides={"n": pl.UInt16, "t": pl.Float32},
    )
    table.write_parquet(tmp_path / "in.parquet")
    run(tmp_path / "in.parquet", "--out", tmp_path / "out.parquet")
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert found.drop("label", "probability").equals(table) and found["label"].to_list() == ["food", "room"]
    inexact = table.with_columns(raw=pl.Series([1.0, float("nan")]), s=pl.Series([[float("inf")], [0.0]]))
    for left, said, columns in (
        ("raw", "'raw' has the type Binary", table),
        ("s", "'s' has the type Struct", table),
        ("raw", "'raw' has NaN or infinite values", inexact),
        ("s", "'s' has NaN or infinite values", inexact),
    ):
        columns.select("text", left).write_parquet(tmp_path / "in.parquet")
        with pytest.raises(SystemExit) as end:
            run(tmp_path / "in.parquet", "--out", tmp_path / "out.jsonl")
        assert end.value.code == ParameterError.code
        assert f"a column cannot be written as .jsonl ({said}" in capsys.readouterr().err


def test_a_table_is_written_to_stdout_as_csv(
    run: Callable[..., None], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BATCH_TEXTS", 2)  # the header is written once for several batches
    rows = pl.DataFrame({"text": ["nice soup", "large room", "soup, soup"]})
    rows.write_ndjson(tmp_path / "in.jsonl")
    run(tmp_path / "in.jsonl", "--out", "-")
    printed, notes = capfdbinary.readouterr()
    run(tmp_path / "in.jsonl", "--out", tmp_path / "out.csv")
    assert printed == (tmp_path / "out.csv").read_bytes()
    assert printed.startswith(b"text,label,probability\nnice soup,food,")
    assert notes == b""


@pytest.mark.parametrize(("content", "count"), [(b"", 0), (b"a\nb\n", 2), ("a\nb\n".encode("utf-16"), 2)])
def test_the_lines_of_a_file_are_counted_for_the_bar(content: bytes, count: int, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_bytes(content)
    assert count_lines(tmp_path / "texts.txt") == count
