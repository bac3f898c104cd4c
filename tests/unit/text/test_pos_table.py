from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.core.errors import DataError, InputMissingError
from epigram.text.pos import lexicons
from epigram.text.pos.pos_table import SCHEMA, PosTable, add_entries, build, load, weights_for
from epigram.text.pos.tagsets import FUNCTION_EN, FUNCTION_ZH, NOTIONAL_EN, NOTIONAL_ZH, is_notional
from epigram.text.settings import PosTableSettings
from epigram.workflow.pos_table import write_pos_table
from tests.support.text_samples import EN, ZH, validated

FIVE = ["的", "了", "么", "着", "吗"]


@pytest.fixture(scope="module")
def table() -> PosTable:
    return build(PosTableSettings())


def row(table: PosTable, entry: str, language: str = "zh") -> dict[str, Any]:
    return table.frame.row(by_predicate=(pl.col("entry") == entry) & (pl.col("language") == language), named=True)


def test_the_8105_characters_stand_in_three_levels(table: PosTable) -> None:
    levels = table.frame.drop_nulls("level")
    assert dict(levels.group_by("level").len().iter_rows()) == {1: 3500, 2: 3000, 3: 1605}
    assert levels["entry"].n_unique() == 8105
    assert set(levels["entry"].str.len_chars()) == {1}
    assert [row(table, entry)["level"] for entry in "一乂亍"] == [1, 2, 3]


def test_the_five_function_characters_weigh_a_half(table: PosTable) -> None:
    assert [row(table, entry)["weight"] for entry in FIVE] == [0.5] * 5
    assert weights_for(FIVE, table, "zh").tolist() == [0.5] * 5


@pytest.mark.parametrize(("entries", "language", "weight"), [
    ("我 不 很 好 吃 每 您 蟀 三", "zh", 1.0),
    ("和 在 吧 呢 啊 把 但 们 之", "zh", 0.5),
    ("中国 没有 因此", "zh", None),
    ("film good not never n't three london", "en", 1.0),
    ("the of and it 's , !", "en", 0.5),
])  # fmt: skip
def test_weights_follow_the_part_of_speech(table: PosTable, entries: str, language: str, weight: float | None) -> None:
    for entry in entries.split():
        found = row(table, entry, language)
        assert found["weight"] == weight or weight is None, found
        frequencies = [part["frequency"] for part in found["parts"]]
        assert frequencies == sorted(frequencies, reverse=True)


def test_every_row_is_whole_and_stands_once(table: PosTable) -> None:
    assert table.frame.schema == SCHEMA
    assert not table.frame.select("entry", "language").is_duplicated().any()
    assert table.frame.drop("level").null_count().sum_horizontal().item() == 0
    assert set(table.frame["source"]) == {"jieba", "xinhua", "ud", "hand", "standard"}
    assert build(PosTableSettings()).frame.equals(table.frame)


def test_tags_are_notional_or_function_and_never_both() -> None:
    for language, notional, function in (("zh", NOTIONAL_ZH, FUNCTION_ZH), ("en", NOTIONAL_EN, FUNCTION_EN)):
        tags = pl.DataFrame({"tag": [*notional, *function]})
        found = tags.select(is_notional(pl.col("tag"), language, "notional"))["tag"].to_list()  # type: ignore[arg-type]
        assert found == [True] * len(notional) + [False] * len(function)
    subclasses = pl.DataFrame({"tag": ["vn", "nrfg", "ul", "eng", "zg"]}).select(
        is_notional(pl.col("tag"), "zh", "notional")
    )
    assert subclasses["tag"].to_list() == [True, True, False, True, True]


def test_settings_move_the_weights() -> None:
    adverbs = build(PosTableSettings(notional=0.9, function=0.1, adverb="function"))
    assert row(adverbs, "不")["weight"] == pytest.approx(0.1)
    assert row(adverbs, "never", "en")["weight"] == pytest.approx(0.1)
    assert row(adverbs, "好")["weight"] == pytest.approx(0.9)


def test_weights_of_a_vocabulary(table: PosTable) -> None:
    vocabulary = ["[PAD]", "[UNK]", "的", "##的", "，", " ", "\ufe0f", "😀", "鿫", "a"]
    assert weights_for(vocabulary, table, "zh").tolist() == [1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 1]
    english = weights_for(["<s>", "The", "##ing", "Ġof", "▁film", "zzyzx", "!?"], table, "en")
    assert english.tolist() == [1, 0.5, 1, 0.5, 1, 1, 0.5]
    assert english.dtype == np.float32
    assert weights_for([], table, "en").shape == (0,)


def test_growing_adds_unseen_words_and_changes_no_row(table: PosTable) -> None:
    seen = pl.DataFrame(
        [("的", "n", 10**9), ("新词儿", "n", 3), ("呗呗", "y", 2)], schema=lexicons.SCHEMA, orient="row"
    )
    grown = add_entries(table, seen, "zh")
    assert grown.frame.head(table.frame.height).equals(table.frame)
    assert row(grown, "的")["source"] == "hand"
    assert row(grown, "新词儿")["source"] == "corpus"
    assert [row(grown, word)["weight"] for word in ("新词儿", "呗呗")] == [1.0, 0.5]
    assert add_entries(grown, seen, "zh").frame.equals(grown.frame)


@pytest.mark.parametrize(("language", "rows"), [("zh", ZH), ("en", EN)])
def test_the_stage_reports_coverage_and_notional_share(tmp_path: Path, language: str, rows: Any) -> None:
    validated(tmp_path / "validated", language, rows)
    write_pos_table(PosTableSettings(), tmp_path / "validated", tmp_path / "versions", tmp_path / "pos")
    about = json.loads((tmp_path / "pos" / "about.json").read_text(encoding="utf-8"))
    assert about["levels"] == {"1": 3500, "2": 3000, "3": 1605}
    assert about["version"] == 1
    assert about["tagger"]["texts"] == about["tagger"]["of"] == 3
    for split in ("train", "dev", "test"):
        assert about["coverage"][split]["tokens"] > 0
        assert 0 <= about["coverage"][split]["notional"] <= 1
    assert about["coverage"]["train"]["covered"] > 0.8
    assert sum(about["rows_by_source"].values()) == about["rows"] == load(tmp_path / "pos").frame.height


def test_the_stage_learns_the_words_of_train_alone_and_covers_them(tmp_path: Path) -> None:
    rows = {split: [(text, label) for label in ("pos", "neg")] for split, text in NEW.items()}
    validated(tmp_path / "validated", "en", rows)
    write_pos_table(PosTableSettings(), tmp_path / "validated", tmp_path / "versions", tmp_path / "pos")
    entries = set(load(tmp_path / "pos").frame.filter(language="en")["entry"])
    assert entries & set(NEW.values()) == {NEW["train"]}
    about = json.loads((tmp_path / "pos" / "about.json").read_text(encoding="utf-8"))
    assert [about["coverage"][split]["covered"] for split in NEW] == [1.0, 0.0, 0.0]


NEW = {"train": "blorfing", "dev": "zorpling", "test": "quindling"}


def test_a_missing_or_broken_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"about\.json"):
        load(tmp_path)
    (tmp_path / "about.json").write_text('{"settings": {}, "version": 1, "previous": null}')
    with pytest.raises(InputMissingError, match=r"table\.parquet"):
        load(tmp_path)
    (tmp_path / "table.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match="not a part-of-speech table"):
        load(tmp_path)


# Tests of the resource files against the data sets from which they were made.


@pytest.fixture
def mirror() -> Path:
    if "EPIGRAM_MIRROR" not in os.environ:
        pytest.skip("requires the data sets: set EPIGRAM_MIRROR to their folder")
    return Path(os.environ["EPIGRAM_MIRROR"])


@pytest.mark.mirror
def test_levels_are_those_of_the_standard(mirror: Path) -> None:
    for level, part in lexicons.hanzi_levels().group_by("level", maintain_order=True):
        listed = (mirror / "hanzi" / f"level-{level[0]}.txt").read_text(encoding="utf-8").split()
        assert part["entry"].to_list() == listed


@pytest.mark.mirror
def test_english_counts_are_those_of_the_treebank(mirror: Path) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    words: Counter[str] = Counter()
    with gzip.open(mirror / "ud_english_ewt" / "en-ud-tag.v2.train.txt.gz", "rt", encoding="utf-8") as file:
        for line in file:
            word, _, tags = line.rstrip("\n").partition("\t")
            if tags:
                word = word.lower().replace("’", "'")
                counts[word, tags.split("\t")[0]] += 1
                words[word] += 1
    kept = set(sorted(words, key=lambda word: (-words[word], word))[:8000])
    expected = sorted((word, tag, count) for (word, tag), count in counts.items() if word in kept)
    assert lexicons.english_counts().rows() == expected


MARKS = {"助": "u", "语助": "u", "副": "d", "介": "p", "连": "c", "叹": "e", "量": "q", "代": "r", "语气": "y"}
MARKS |= dict.fromkeys(("象声", "像声", "拟声"), "o")
GLOSS = re.compile(
    r"^[\W\d_⒈-⒛ɑa-zāáǎàōóǒòēéěèīíǐìūúǔùǖǘǚǜ]*(?:[(〈（][^)〉）]{1,4}[)〉）])?[\u4e00-\u9fff]{0,2}?"
    r"(语气|语助|助|副|介|连|叹|量|代|象声|像声|拟声)词(?![的“”‘'\"、后缀])"
)


def glosses(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        for part in node:
            yield from glosses(part)
    else:
        for name, part in node.items():
            if name not in {"pinyin", "char"}:
                yield from glosses(part)


@pytest.mark.mirror
def test_marks_are_those_of_the_glosses(mirror: Path) -> None:
    text = gzip.decompress((mirror / "xinhua" / "char_common_detail.json.gz").read_bytes()).decode()
    characters = [json.JSONDecoder().raw_decode(part)[0] for part in re.split(r"\n(?=\{)", text)]
    counts: Counter[tuple[str, str]] = Counter()
    for character in characters:
        found = (GLOSS.match(gloss) for gloss in glosses(character))
        counts.update((character["char"], MARKS[match[1]]) for match in found if match)
    assert lexicons.xinhua_tags().rows() == sorted((entry, tag, count) for (entry, tag), count in counts.items())


def test_a_sample_leaves_long_texts_out_and_goes_on(tmp_path: Path) -> None:
    texts = ["好" * 101, "一", "很" * 2000, *"二三四五", "长" * 500]
    corpus = validated(tmp_path, "zh", {"train": [(text, "pos") for text in texts], "dev": [], "test": []})
    assert corpus.sample("train", 100, 1000) == list("一二三四五")
    assert corpus.sample("train", 100, 10) == list("一二三四五")
    many = validated(tmp_path, "zh", {"train": [("好" * 5, "pos")] * 30, "dev": [], "test": []})
    assert len(many.sample("train", 100, 100)) == 20
    assert len(many.sample("train", 10, 100)) == 10


def test_a_word_that_is_notional_in_half_of_its_occurrences_is_notional(table: PosTable) -> None:
    seen = pl.DataFrame({"entry": ["呗呗", "呗呗", "唉唉", "唉唉"], "tag": ["n", "u"] * 2, "frequency": [3, 3, 3, 4]})
    grown = add_entries(table, seen, "zh")
    assert [row(grown, word)["weight"] for word in ("呗呗", "唉唉")] == [1.0, 0.5]
