from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from epigram.text.pos_table import PosTable, add_entries, build
from epigram.text.settings import PosTableSettings
from epigram.text.taggers import JiebaTagger, TableTagger, TaggedText, Tagger, count_tags, guess_tag, tagger_for
from epigram.text.tagsets import Language


@pytest.fixture(scope="module")
def table() -> PosTable:
    return build(PosTableSettings())


def test_jieba_tags_words_marks_and_foreign_words() -> None:
    (tagged,) = JiebaTagger().tag(["我不喜欢 iPhone，太贵了！😀"])
    tags = dict(tagged)
    assert (tags["我"], tags["喜欢"], tags["iPhone"], tags["，"], tags["了"]) == ("r", "v", "eng", "w", "ul")
    assert tags["😀"] != "w", "an emoji carries feeling: it is no mark"
    assert not any(word.isspace() for word in tags)


def test_the_table_tags_english_words(table: PosTable) -> None:
    (tagged,) = TableTagger(table).tag(["The film isn't zorply!"])
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


def test_any_object_that_tags_can_grow_the_table(table: PosTable) -> None:
    class Whole:
        name = "whole"
        language: Language = "zh"

        def tag(self, texts: Iterable[str]) -> Iterator[TaggedText]:
            return ([(text, "y")] for text in texts)

    tagger: Tagger = Whole()
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
