from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import spacy

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.extras import MissingPackageError
from epigram.text.dataset.language import Language
from epigram.text.pos.pos_table import PosTable, add_entries, build
from epigram.text.pos.taggers import (
    Tagger,
    count_tags,
    guess_tag,
    jieba_tagger,
    table_tagger,
    tagger_for,
)
from epigram.text.settings import PosTableSettings


@pytest.fixture(scope="module")
def table() -> PosTable:
    return build(PosTableSettings())


def test_without_a_tagger_no_word_is_found(table: PosTable) -> None:
    none = tagger_for("zh", replace(table, settings=PosTableSettings(tagger="none")))
    assert (none.language, list(none.tag(["我的目的"]))) == ("zh", [])
    tagged = count_tags(none.tag(["我的目的"]))
    assert add_entries(table, tagged, "zh").frame.equals(table.frame)


def test_jieba_tags_words_marks_and_foreign_words() -> None:
    (tagged,) = jieba_tagger().tag(["我不喜欢 iPhone，太贵了！😀"])
    tags = dict(tagged)
    assert (tags["我"], tags["喜欢"], tags["iPhone"], tags["，"], tags["了"]) == ("r", "v", "eng", "w", "ul")
    assert tags["😀"] != "w", "an emoji carries feeling: it is no mark"
    assert not any(word.isspace() for word in tags)


def test_the_table_tags_english_words(table: PosTable) -> None:
    (tagged,) = table_tagger(table).tag(["The film isn't zorply!"])
    assert tagged == [
        ("the", "DET"),
        ("film", "NOUN"),
        ("is", "AUX"),
        ("n't", "ADV"),
        ("zorply", "ADV"),
        ("!", "PUNCT"),
    ]


@pytest.mark.parametrize(
    ("word", "tag"),
    [
        ("zorply", "ADV"),
        ("zorping", "VERB"),
        ("zorpous", "ADJ"),
        ("zorp", "NOUN"),
        ("12.5", "NUM"),
        ("?!", "PUNCT"),
        ("😀", "NOUN"),
        ("ing", "NOUN"),
    ],
)
def test_unseen_words_go_by_their_shape(word: str, tag: str) -> None:
    assert guess_tag(word) == tag


def test_any_function_that_tags_can_grow_the_table(table: PosTable) -> None:
    tagger = Tagger("whole", "zh", lambda texts: ([(text, "y")] for text in texts))
    grown = add_entries(table, count_tags(tagger.tag(["呗呗呗", "呗呗呗"])), tagger.language)
    assert grown.frame.row(-1, named=True) == {
        "entry": "呗呗呗",
        "language": "zh",
        "level": None,
        "parts": [{"tag": "y", "frequency": 2}],
        "weight": 0.5,
        "source": "corpus",
    }


def test_each_language_has_its_tagger(table: PosTable) -> None:
    assert [tagger_for(language, table).language for language in ("zh", "en")] == ["zh", "en"]
    assert count_tags([]).height == 0


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder data/local of a new project, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/local").mkdir(parents=True)
    return tmp_path / "data/local"


def chosen(table: PosTable, tagger: str, language: Language = "zh") -> Tagger:
    return tagger_for(language, replace(table, settings=PosTableSettings(tagger=tagger)))


def test_words_and_tags_of_the_user_come_before_those_of_the_tagger(table: PosTable, local: Path) -> None:
    (local / "zh.tsv").write_text("# words\n呗好\ty\n喜欢\tn\n", encoding="utf-8")
    (before,) = jieba_tagger().tag(["我喜欢呗好"])
    tagger = chosen(table, "data/local/zh.tsv")
    assert tagger.name == "zh.tsv"
    assert list(tagger.tag(["我喜欢呗好"])) == [[("我", "r"), ("喜欢", "n"), ("呗好", "y")]]
    assert list(jieba_tagger().tag(["我喜欢呗好"])) == [before], "jieba itself does not change"
    (local / "en.tsv").write_text("Zorp\tADP\nfilm\tVERB\n", encoding="utf-8")
    english = chosen(table, "data/local/en.tsv", "en")
    assert list(english.tag(["The film zorp"])) == [[("the", "DET"), ("film", "VERB"), ("zorp", "ADP")]]


@pytest.mark.parametrize(("text", "language", "expected"), [
    ("呗好\n", "zh", "line 1 has 1 columns"),
    ("好\ta\n呗好\t\n", "zh", "line 2 has 2 columns or an empty one"),
    ("呗好\tNOUN\n", "zh", "has the tag 'NOUN'; expected a tag of jieba"),
    ("zorp\tn\n", "en", "has the tag 'n'; expected a universal tag"),
])  # fmt: skip
def test_a_file_of_tags_is_checked(table: PosTable, local: Path, text: str, language: Language, expected: str) -> None:
    (local / "tags.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=expected):
        chosen(table, "data/local/tags.tsv", language)


def test_a_tagger_is_in_the_user_s_folder(table: PosTable, local: Path) -> None:
    with pytest.raises(ParameterError, match=r"pos_table\.tagger is 'jiba'; expected a file or folder in data/local"):
        chosen(table, "jiba")
    with pytest.raises(InputMissingError, match=r"pos_table\.tagger is 'data/local/none', which does not exist"):
        chosen(table, "data/local/none")


def save_pipeline(folder: Path, language: Language, tags: dict[str, str]) -> None:
    """Save a spaCy pipeline that tags words by a table."""
    jieba = {"nlp": {"tokenizer": {"segmenter": "jieba"}}}
    pipeline = spacy.blank(language, config=jieba if language == "zh" else {})
    ruler: Any = pipeline.add_pipe("attribute_ruler")
    for word, tag in tags.items():
        ruler.add([[{"ORTH": word}]], {"POS": tag})
    pipeline.to_disk(folder)


def test_a_pipeline_of_spacy_tags_chinese_words(table: PosTable, local: Path) -> None:
    tags = {
        "我": "PRON",
        "能": "AUX",
        "很": "ADV",
        "想": "VERB",
        "看": "VERB",
        "的": "PART",
        "而": "CCONJ",
        "。": "PUNCT",
    }
    save_pipeline(local / "pipeline", "zh", tags)
    tagger = chosen(table, "data/local/pipeline")
    assert tagger.name == "spaCy pipeline"
    found = list(tagger.tag(["我很想看。", "能而 我的"]))
    assert found == [
        [("我", "r"), ("很", "d"), ("想", "v"), ("看", "v"), ("。", "w")],
        [("能", "v"), ("而", "c"), ("我", "r"), ("的", "u")],
    ]
    with pytest.raises(DataError, match="sets no part of speech"):
        list(tagger.tag(["好"]))
    with pytest.raises(ParameterError, match="is a spaCy pipeline for 'zh', but the texts are 'en'"):
        chosen(table, "data/local/pipeline", "en")


def test_a_pipeline_of_spacy_tags_english_words(table: PosTable, local: Path) -> None:
    save_pipeline(local / "pipeline", "en", {"Film": "NOUN", "n't": "PART", "is": "AUX"})
    tagger = chosen(table, "data/local/pipeline", "en")
    assert list(tagger.tag(["Film isn't"])) == [[("film", "NOUN"), ("is", "AUX"), ("n't", "PART")]]


def test_a_folder_that_is_no_pipeline_of_spacy_is_refused(
    table: PosTable, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (local / "pipeline").mkdir()
    with pytest.raises(DataError, match=r"pipeline is not a spaCy pipeline that can be loaded"):
        chosen(table, "data/local/pipeline")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingPackageError, match=r"pos_table\.tagger .* needs spacy.*pip install .*\[spacy\]"):
        chosen(table, "data/local/pipeline")
