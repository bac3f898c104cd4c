"""Encodings, quotation marks and names of labels in user files."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from epigram.core.errors import DataError, ParameterError
from epigram.data import chunks
from epigram.data.decoding import guess_encoding, open_text, to_utf8
from epigram.data.growing_dataset import describe
from epigram.data.readers.csv import Csv
from epigram.data.sources.source import File, Source
from epigram.data.tables import reader_of
from epigram.data.validation.settings import ValidateSettings
from epigram.data.validation.validate import validate
from epigram.text.lines import decode_arguments, decode_lines, read_lines, read_texts
from tests.support.sources import CSV, corpus

MIXED = "房間很好，早餐不錯,好\n"
ZH = "房间很干净,好评\n服务态度很差,差评\n早餐非常丰富,好评\n下次还会再来,好评\n"
TRADITIONAL = "服務很好,好評\n早餐難以下嚥,差評\n房間很髒,差評\n這間酒店的環境很好,好評\n"
KANA = "【限定】カメラ 0 ￥￥￥,赢\n【限定】カメラ 1 ★★★,输\n"
NAMES = "冯喆很好,好评\n朱镕基来过,好评\n陶喆唱得很好,差评\n"
FRENCH = "Le café était très bon,1\nLa chambre était sale et petite,0\nà côté de la forêt,1\n"
GERMAN = "Das Zimmer war schön groß,1\nDie Küche war übel,0\n"
SPANISH = "La habitación era pequeña,0\n¿Cómo está? ¡Muy bien señor!,1\n"
QUOTED = "“Great” film – don’t miss it…,1\n£5 is too much,0\nit’s naïve,0\n"
JAPANESE = "とてもきれいなホテルでした,1\nサービスが悪い,0\n"
EURO = "20 € la nuit,1\nUn café à 3 €,0\nDu cœur et 5 € de plus,1\n"
FRACTIONS = "½ tasse de café,1\nPrenez ¼ de crème et ½ litre,0\nGeht´s,1\n" + "½ pomme,0\n" * 9
KOREAN = "방이 아주 깨끗하고 좋아요,1\n서비스가 너무 나빠요,0\n"
RUSSIAN = "Очень хороший отель,1\nПлохое обслуживание,0\n"
POLISH = "Pokój był bardzo ładny,1\nObsługa była zła i wolna,0\nŚniadanie średnie,0\nłazienka też,1\n"


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        (ZH, "utf-8", "utf-8"),
        (ZH, "utf-8-sig", "utf-8"),
        (ZH, "gbk", "gb18030"),
        (TRADITIONAL, "gbk", "gb18030"),
        (TRADITIONAL, "big5", "big5hkscs"),
        (KANA, "gbk", "gb18030"),
        (NAMES, "gbk", "gb18030"),
        (ZH + "很好👍,好评\n", "gb18030", "gb18030"),
        (ZH, "utf-16", "utf-16"),
        (ZH, "utf-16-le", "utf-16-le"),
        (ZH, "utf-16-be", "utf-16-be"),
        (ZH, "utf-32", "utf-32"),
        (FRENCH, "cp1252", "cp1252"),
        (FRENCH, "latin-1", "cp1252"),
        (GERMAN, "cp1252", "cp1252"),
        (SPANISH, "cp1252", "cp1252"),
        (QUOTED, "cp1252", "cp1252"),
        ("café,1\n", "cp1252", "cp1252"),
        (FRENCH, "cp850", "cp850"),
        (QUOTED, "mac_roman", "mac_roman"),
        (EURO, "iso8859-15", "iso8859_15"),
        (EURO, "cp1252", "cp1252"),
        (FRACTIONS, "cp1252", "cp1252"),
        ("plain,1\n", "ascii", "utf-8"),
    ],
)
@pytest.mark.parametrize("before", [0, 20_000], ids=["whole", "late"])
def test_the_encoding_of_chinese_and_western_texts_is_detected(
    text: str, encoding: str, found: str, before: int, tmp_path: Path
) -> None:
    content = "text,label\n" + "a plain line,1\n" * before + text
    (tmp_path / "x.csv").write_bytes(content.encode(encoding))
    assert guess_encoding(tmp_path / "x.csv") == found
    assert to_text(tmp_path / "x.csv", found) == content
    lines = io.BytesIO(content.encode(encoding))
    assert "\n".join(decode_lines(read_lines(lines, "line"), "line")) + "\n" == content


@pytest.mark.parametrize("before", ["", "x"])
def test_the_sample_that_is_compared_may_end_within_a_character(before: str, tmp_path: Path) -> None:
    """The sample has 65,536 bytes: after one more byte, it ends with the first byte of a character."""
    (tmp_path / "x.csv").write_bytes((before + ZH.replace("\n", "") * 1_500).encode("gbk"))
    assert guess_encoding(tmp_path / "x.csv") == "gb18030"


@pytest.mark.parametrize(
    ("text", "encoding", "said"),
    [
        (JAPANESE, "cp932", r"cp932 \(Japanese\) reads '" + JAPANESE[:13]),
        (JAPANESE, "euc_jp", r"euc_jp \(Japanese\) reads '" + JAPANESE[:13]),
        (KOREAN, "euc-kr", r"cp949 \(Korean\) reads '" + KOREAN[:13]),
        (RUSSIAN, "cp1251", r"cp1251 \(Russian\) reads '" + RUSSIAN[:13]),
        (RUSSIAN, "koi8-r", r"koi8_r \(Russian\) reads '" + RUSSIAN[:13]),
        (POLISH, "cp1250", r"cp1250 \(Polish\) reads '" + POLISH[:13]),
        ("奇,1\n", "gbk", "not certain"),
        ("Le café coûte 20 €,1\n", "iso8859-15", r"cp1252 \(French\) .* 20 ¤,1', iso8859_15 \(French\) .* 20 €,1'"),
        (POLISH, "cp852", r"cp852 \(Polish\) reads '" + POLISH[:13]),
        ("istnieje już skrót,1\n", "cp1250", r"reads 'istnieje ju¿ skrót,1', cp1250 \(Polish\) reads 'istnieje już"),
    ],
)
def test_other_encodings_are_refused_with_two_readings(text: str, encoding: str, said: str, tmp_path: Path) -> None:
    data = ("text,label\n" + text).encode(encoding)
    (tmp_path / "x.csv").write_bytes(data)
    with pytest.raises(DataError, match=rf"x\.csv line 2 is not UTF-8.*{said}.*set read\.encoding") as error:
        guess_encoding(tmp_path / "x.csv")
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match=rf"^line 2 is not UTF-8.*{said}.*use --encoding"):
        list(decode_lines(data.splitlines(keepends=True), "line"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            ZH.encode() + "房间很脏,差评\n".encode("gbk"),
            r"line 5 is not UTF-8, but other lines are.*gb18030.*房间很脏,差评",
        ),
        (ZH.encode() + b"\xff,1\n", "line 5 is not UTF-8, but other lines are"),
        (
            ZH.encode() + "很好".encode()[:-1],
            "line 5 is not UTF-8.*or has another encoding$",
        ),
        (ZH.encode("gbk") * 20 + ZH.encode(), "line 81 is UTF-8, but .*line 1 is not; convert"),
        (ZH.encode("gbk") * 20 + MIXED.encode("big5"), "line 81 is not gb18030, but other lines are: big5hkscs"),
        (ZH.encode("gbk") * 2000 + MIXED.encode("big5"), "line 8001 is not gb18030, but other lines are: big5hkscs"),
        (ZH.encode("gbk") * 5 + MIXED.encode("big5") * 40, "is not big5hkscs, but other lines are: gb18030"),
        (
            "schön und groß,gut\n".encode("cp1252") * 60 + ZH.encode("gbk"),
            "6[1-4] is not cp1252, but other lines",
        ),
        ("Un café frappé,1\nIl coûte 20 €,1\n".encode("iso8859-15"), "line 2 is not .* 20 ¤,1'.* 20 €,1'"),
        (bytes(byte | 0x80 for byte in Random(1).randbytes(200)), "line 1 is not UTF-8; the text is damaged or has an"),
        (b"a\0b\0\1\0\0\0\0\0\0", "line 1 has a NUL byte"),
        (b"text,label\ngo\0od,1\n", "line 2 has a NUL byte"),
        (b"\x1f\x8b\x08\0\0", "is compressed"),
        (b"PK\3\4\0\0", "Excel workbook"),
    ],
)
def test_damaged_and_mixed_files_are_refused_by_line(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(DataError, match=rf"x\.csv.*{said}"):
        guess_encoding(tmp_path / "x.csv")


def test_files_that_are_no_text_are_named_in_place_of_their_lines(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(gzip.compress(b"good\n"))
    with pytest.raises(DataError, match=r"x\.txt is compressed \(gzip\); unpack it"):
        list(read_texts(tmp_path / "x.txt"))


@pytest.mark.parametrize("bad", [b"\x80100", "好".encode("gbk")[:1], b"\xff"])
def test_a_wrong_byte_in_gbk_is_named(bad: bytes, tmp_path: Path) -> None:
    content = ZH.encode("gbk") + b"ab" + bad + b",1\n" + ZH.encode("gbk")
    (tmp_path / "x.csv").write_bytes(content)
    assert guess_encoding(tmp_path / "x.csv") == "gb18030"
    with pytest.raises(DataError, match=r"x\.csv is not GB18030 at byte 72 in line 5; the file is damaged"):
        to_utf8(tmp_path / "x.csv", "gb18030")


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "utf-16", "utf-16-be"])
def test_lines_end_with_any_line_end(encoding: str) -> None:
    data = "\ufeff很好\r很差\r\n\n好\r\r\n上\r".removeprefix("\ufeff" if encoding == "gb18030" else "").encode(encoding)
    wanted = ["很好", "很差", "", "好", "上"]
    assert list(decode_lines(read_lines(io.BytesIO(data), "line"), "line", encoding)) == wanted


def test_a_line_is_named_by_its_number_whatever_ends_the_lines_before_it() -> None:
    """The first 1,024 line feeds end 2,048 lines, of which each second one ends with CR."""
    with pytest.raises(DataError, match=r"^line 2049 has a NUL byte"):
        list(decode_lines([b"a\rb\n"] * 1_024 + [b"\0\n"], "line"))


def test_arguments_that_are_not_in_the_encoding_of_the_locale_are_decoded() -> None:
    texts = [text.encode("gbk").decode("utf-8", "surrogateescape") for text in ("房间很干净", "服务很好")]
    assert decode_arguments(["好 é", *texts]) == ["好 é", "房间很干净", "服务很好"]
    assert decode_arguments(texts, "gbk") == ["房间很干净", "服务很好"]
    with pytest.raises(DataError, match="a text is not utf-8; use another --encoding"):
        decode_arguments(texts, "utf-8")


def to_text(path: Path, encoding: str) -> str:
    with open_text(to_utf8(path, encoding)) as text:
        return text.read()


def test_the_wrong_byte_is_found_far_down(tmp_path: Path) -> None:
    lines = "text,label\n" + "一句话,1\n" * 800_000
    with pytest.raises(DataError, match=r"line 800002 is not UTF-8, but other lines are"):
        corpus(tmp_path, lines.encode() + b"\xff\n", {"reader": "csv"})
    with pytest.raises(DataError, match=r"x\.csv is not GB18030 at byte 13 in line 2; the encoding is probably utf-8"):
        corpus(tmp_path, lines, {"reader": "csv", "encoding": "gb18030"})


def test_other_encodings_are_read_when_named(tmp_path: Path) -> None:
    for encoding in ("gbk", "gb18030", "utf-16", "utf-8-sig"):
        frame = corpus(tmp_path, CSV.encode(encoding), {"reader": "csv", "encoding": encoding})
        assert frame["text"].to_list() == ["good film", "好看", "so so"]
    assert corpus(tmp_path, CSV.encode("utf-8-sig"), {"reader": "csv"}).height == 3
    with pytest.raises(DataError, match=r"is not GBK at byte .*; the encoding is probably utf-8"):
        corpus(tmp_path, "text,label\n好看吗,1\n", {"reader": "csv", "encoding": "gbk"})
    with pytest.raises(ParameterError, match=r"read\.encoding is 'gbkk'"):
        corpus(tmp_path, CSV, {"reader": "csv", "encoding": "gbkk"})


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    rows = "\ufeff" + json.dumps({"text": "a", "label": "x"}) + "\n"
    assert corpus(tmp_path, rows, {"reader": "jsonl"})["text"].to_list() == ["a"]
    assert corpus(tmp_path, "\ufeffa\nb\n", {"reader": "lines", "file_label": "x"})["text"].to_list() == ["a", "b"]
    words = corpus(tmp_path, "\ufeffa\tO\n", {"reader": "conll"}, task="tokens")
    assert words["tokens"].to_list() == [["a"]]
    for reader in ("csv", "jsonl"):
        with pytest.raises(DataError, match=r"x\.csv is empty"):
            corpus(tmp_path, "\ufeff", {"reader": reader})


@pytest.mark.parametrize("half", [r"\ud83d", r"\uD83Dx", r"\ude00", r"\ud83d\u4e2d", r"\ud83d\ud83d\ude00"])
def test_half_a_character_is_named_by_its_line(tmp_path: Path, half: str) -> None:
    sound = r'{"text": "\ud83d\ude00 \u4e2d \\ud83d", "label": "x"}' + "\n"
    assert corpus(tmp_path, sound, {"reader": "jsonl"})["text"].to_list() == [r"😀 中 \ud83d"]
    with pytest.raises(DataError, match=r"x\.csv line 3 has an unpaired surrogate"):
        corpus(tmp_path, 2 * sound + f'{{"text": "a{half}", "label": "x"}}\n' + sound, {"reader": "jsonl"})


SENTENCE = 'id\ttext\n1\t"I never thought I would like it.\n2\tBut I did."\n3\tmeh\n'  # one sentence in two rows


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "x.tsv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path, **options: str | None) -> tuple[dict[str, str | None], list[str]]:
    chosen = Csv.detect(path, {"reader": "csv", "label": None, **options})
    return chosen, pl.concat(reader_of(chosen).read(path))["text"].to_list()


BOTH = ['"I never thought I would like it.', 'But I did."', "meh"]


@pytest.mark.parametrize("size", [chunks.CHUNK_SIZE, 16])
@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (SENTENCE, BOTH),
        (SENTENCE.replace("\n", "\r\n"), BOTH),
        (SENTENCE.replace("\n", "\n\n"), BOTH),  # blank lines are no rows
        (SENTENCE.removesuffix("\n") + '"', [*BOTH[:2], 'meh"']),
        (SENTENCE + "4\n", [*BOTH, ""]),  # short rows and blank cells decide nothing
        (SENTENCE.replace("3\tmeh", "\t\n3\tmeh"), BOTH),
        (SENTENCE.replace("2\t", "2\n2\t"), [BOTH[0], "", *BOTH[1:]]),
        (SENTENCE.replace("3\tmeh", '3\t"meh"'), [*BOTH[:2], '"meh"']),
        ('id\ttext\n1\t"one\ntwo"\n2\tmeh\n', ["one\ntwo", "meh"]),  # a quoted text of two lines
        ('text\tid\n"one\ntwo"\t1\n', ["one\ntwo"]),
        ('id\ttext\n1\t"one\ttwo\nthree"\n2\tmeh\n', ["one\ttwo\nthree", "meh"]),
        ('text\n"one\ntwo"\n', ["one\ntwo"]),
    ],
)
def test_a_quote_joins_no_rows_of_a_tsv(
    content: str, texts: list[str], size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_SIZE", size)
    assert read(write(tmp_path, content), separator="\t")[1] == texts


@pytest.mark.parametrize("encoding", ["utf-8-sig", "gbk", "big5", "utf-16"])
def test_joined_rows_are_found_in_any_encoding(encoding: str, tmp_path: Path) -> None:
    path = write(tmp_path, SENTENCE.replace("meh", "一般").encode(encoding))
    assert read(path, separator="\t", encoding=encoding)[1] == [*BOTH[:2], "一般"]


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        ('1,"I never\n2,I did"\n', None),
        ('1,"I never\n2,meh\n3,I did"\n4,so\n', None),
        ('1,"I never\nI, did"\n', None),  # two rows, or a text of two lines with a comma
        ('1,"I never\nI, did"\n2,"so, so"\n', ["I never\nI, did", "so, so"]),
        ('1,"I never\nI, did"\n2,"so"\n', ["I never\nI, did", "so"]),
        ('1,"I never\nI did"\n', ["I never\nI did"]),
        ('1,"I never\nI, did"\n2,"I never\nI did"\n', ["I never\nI, did", "I never\nI did"]),
    ],
)
def test_quotes_that_may_join_rows_of_a_csv_are_refused(rows: str, texts: list[str] | None, tmp_path: Path) -> None:
    path = write(tmp_path, "id,text\n0,fine\n" + rows)
    if texts is not None:
        assert read(path, separator=",")[1] == ["fine", *texts]
        return
    with pytest.raises(DataError, match=r"a quote that opens in line 3 and closes in line [45], but both look like"):
        read(path, separator=",")


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_csv_whose_marks_are_plain_in_other_files_may_quote_texts(separator: str, tmp_path: Path) -> None:
    quoted = write(tmp_path, f'text{separator}id\n"so{separator} so"{separator}1\n"fine"{separator}2\n')
    chosen, texts = read(quoted, separator=separator, quote=None)
    assert (texts, chosen["quote"]) == ([f"so{separator} so", "fine"], '"')
    plain = write(tmp_path, f'text{separator}id\n"fine"{separator}2\n')
    assert read(plain, separator=separator, quote=None)[1] == ['"fine"']
    broken = write(tmp_path, f'text{separator}id\n"fine"{separator}2\nso{separator} so{separator}1\n')
    with pytest.raises(DataError, match=r"line 3 has 3 values for 2 columns.*\nquotation marks are plain characters"):
        read(broken, separator=separator, quote=None)


def test_a_tsv_whose_marks_are_plain_in_other_files_is_not_read_as_quoted(tmp_path: Path) -> None:
    broken = write(tmp_path, 'id\ttext\n1\t"I never\tthought\n2\tBut I did."\n')
    with pytest.raises(DataError, match="line 2 has 3 values for 2 columns"):
        read(broken, separator="\t", quote=None)


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_csv_that_quotes_some_values_is_not_read_with_plain_marks(separator: str, tmp_path: Path) -> None:
    both = write(tmp_path, f'text{separator}id\n"fine"{separator}2\n5" long{separator}1\n')
    with pytest.raises(DataError, match=r"x\.tsv"):
        read(both, separator=separator)


NAMES = {"pos": "正面", "neg": "负面"}


def source(**changes: Any) -> Source:
    values: dict[str, Any] = {"task": "single", "label_names": NAMES, "read": {"reader": "csv"}} | changes
    return Source(name="x", about="", language="zh", licence="", files=[File(path="x", local="x")], **values)


def named(about: Source) -> list[str]:
    """Return the names of the labels of the validated corpus, whose labels are sorted if `about` lists none."""
    rows = [(f"{split}{n}", ("pos", "neg")[n % 2], split) for split in ("train", "dev", "test") for n in range(2)]
    frame = pl.DataFrame(rows, schema=["text", "label", "split"], orient="row")
    frame = frame.with_columns(file=pl.lit("x"), line=pl.int_range(len(rows)))
    return validate(frame.lazy(), about, ValidateSettings(min_per_class=1)).corpus.label_names


def test_names_follow_the_order_of_the_labels() -> None:
    assert named(source()) == ["负面", "正面"]
    assert named(source(labels=["pos", "neg"])) == ["正面", "负面"]
    assert named(source(label_names={})) == []


def test_names_of_other_labels_than_those_of_the_texts_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"data/sources/x\.yaml: label_names has 'odd', which is not a label"):
        named(source(label_names=NAMES | {"odd": "奇"}))
    with pytest.raises(ParameterError, match=r"data/sources/x\.yaml: label_names lacks the label 'neg'"):
        named(source(label_names={"pos": "正面"}))


def test_a_growing_data_set_keeps_the_names_and_the_levels() -> None:
    assert describe(source(), ["neg", "pos"], "x_live")["label_names"] == NAMES
    assert "label_names" not in describe(source(label_names={}), ["neg", "pos"], "x_live")
    assert describe(source(hierarchy="/"), ["a/b", "a/c"], "x_live")["hierarchy"] == "/"
