"""Part-of-speech weights of tokens: a character, or a piece of a word, has the weight of the word that contains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from epigram.core.arrays import Ragged
from epigram.core.errors import DataError
from epigram.inference.predictors.dataset_batches import batches_of, data_spec_of, template_of
from epigram.inference.predictors.predictor import Predictor
from epigram.models.serialization import save as save_model
from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.text.dataset import pos_words
from epigram.text.dataset.language import Language
from epigram.text.dataset.pos_words import OWN, PosWords, WordWeights
from epigram.text.dataset.validated_corpus import SPLITS
from epigram.text.pos import lexicons
from epigram.text.pos.pos_table import PosTable, add_entries, build, save, words_of
from epigram.text.settings import PosTableSettings, ViewSettings
from epigram.text.tokens.tokenizers import SPECIALS
from tests.support.text_samples import encoded_in

LETTERS = "我的目话再者说呗好确，a "


@pytest.fixture(scope="module")
def table() -> PosTable:
    return build(PosTableSettings())


def grown(table: PosTable, *rows: tuple[str, str]) -> PosTable:
    tagged = [(entry, tag, 2) for entry, tag in rows]
    return add_entries(table, pl.DataFrame(tagged, schema=lexicons.SCHEMA, orient="row"), "zh")


def weights(
    table: PosTable, vocabulary: Sequence[str], tokens: list[list[str]], language: Language = "zh", room: int = 99
) -> list[list[float]]:
    """Return the weight of each token of each text."""
    pieces = "##in" in vocabulary or "Ġthe" in vocabulary
    words = words_of(table, language, pieces=pieces)
    assert words is not None
    ids = Ragged.from_lists([[vocabulary.index(token) for token in text] for text in tokens], np.int32)
    found = WordWeights(words, vocabulary).find(ids, room)
    return [row.tolist() for row in ids.with_values(found)]


def by_character(table: PosTable, text: str, room: int = 99) -> list[float]:
    return weights(table, [*SPECIALS, *LETTERS], [list(text)], room=room)[0]


def test_a_character_has_the_weight_of_its_word(table: PosTable) -> None:
    # jieba: 我 / 的 / 目的; 的 alone is a particle, 目的 is a noun
    assert by_character(table, "我的目的") == [1.0, 0.5, 1.0, 1.0]
    # 的话 is a particle, 话 alone is a noun
    assert by_character(table, "好的话") == [1.0, 0.5, 0.5]
    assert by_character(table, "说话") == [1.0, 1.0]


def test_a_grown_row_changes_the_weights_of_characters(table: PosTable) -> None:
    assert by_character(table, "再者我") == [1.0, 1.0, 1.0]  # 再者 is rare: it has no row, so it is notional
    assert by_character(grown(table, ("再者", "c")), "再者我") == [0.5, 0.5, 1.0]


def test_a_grown_word_that_jieba_does_not_know_is_one_word(table: PosTable) -> None:
    # without its row, 呗好 are two words: 呗 is a particle, 好 an adjective
    assert by_character(table, "说呗好") == [1.0, 0.5, 1.0]
    assert by_character(grown(table, ("呗好", "n")), "说呗好") == [1.0, 1.0, 1.0]
    assert by_character(table, "说呗好") == [1.0, 0.5, 1.0], "the segmentation of other views does not change"


def test_marks_are_function_tokens_and_special_tokens_keep_their_own_weight(table: PosTable) -> None:
    vocabulary = [*SPECIALS, *LETTERS]
    found = weights(table, vocabulary, [["好", "，", " ", "a", "[UNK]", "目", "的"], ["的"]])
    assert found == [[1.0, 0.5, 0.5, 1.0, OWN, 1.0, 1.0], [0.5]]


def test_words_do_not_cross_texts_or_what_the_model_reads(table: PosTable) -> None:
    vocabulary = [*SPECIALS, *LETTERS]
    assert weights(table, vocabulary, [["目"], ["的"], ["话"]]) == [[1.0], [0.5], [1.0]]
    # jieba: 好 / 的确; 的确 is an adverb
    assert by_character(table, "好的确") == [1.0, 1.0, 1.0]
    assert by_character(table, "好的确", room=2) == [1.0, 0.5, OWN]


def test_texts_are_segmented_in_groups(table: PosTable, monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary, texts = [*SPECIALS, *LETTERS], [list("我的目的"), list("好的话"), list("的")]
    expected = weights(table, vocabulary, texts)
    monkeypatch.setattr(pos_words, "CHUNK_TOKENS", 4)
    assert weights(table, vocabulary, texts) == expected == [[1.0, 0.5, 1.0, 1.0], [1.0, 0.5, 0.5], [0.5]]


def test_a_piece_has_the_weight_of_its_english_word(table: PosTable) -> None:
    vocabulary = [*SPECIALS, "with", "##in", "##to", "in", "a", "day", ",", "With", "bor", "##ing"]
    # within and into are prepositions; bor is in no table, boring is an adjective
    texts = [["with", "##in", "a", "day", ","], ["in", "##to", "bor", "##ing"], ["With", "##in"]]
    assert weights(table, vocabulary, texts, "en") == [[0.5, 0.5, 0.5, 1.0, 0.5], [0.5, 0.5, 1.0, 1.0], [0.5, 0.5]]
    # in by itself is a preposition, inday is no known word
    vocabulary = [*SPECIALS, "in", "##day", "##in"]
    assert weights(table, vocabulary, [["in", "##day"], ["in"]], "en") == [[1.0, 1.0], [0.5]]


def test_a_piece_of_byte_level_bpe_continues_a_word_if_it_has_no_prefix(table: PosTable) -> None:
    vocabulary = ["<unk>", "<pad>", "Ġthe", "Ġin", "day", "with", "in", "."]
    texts = [["with", "in", "Ġthe", "day", "."], ["Ġin", "Ġthe", "<unk>"]]
    # within / theday / .
    assert weights(table, vocabulary, texts, "en") == [[0.5, 0.5, 1.0, 1.0, 0.5], [0.5, 0.5, OWN]]


def test_pieces_of_latin_words_in_chinese_take_the_weight_of_the_word(table: PosTable) -> None:
    vocabulary = [*SPECIALS, "a", "##in", "目", "的"]
    assert weights(grown(table, ("ain", "c")), vocabulary, [["a", "##in", "目", "的"]]) == [[0.5, 0.5, 1.0, 1.0]]


def test_only_views_whose_tokens_may_be_parts_of_words_have_weights_of_words(table: PosTable) -> None:
    assert words_of(table, "en", pieces=False) is None
    words = words_of(table, "zh", pieces=False)
    assert words is not None
    assert (words.weights["的"], words.weights["的话"], words.notional, words.function) == (0.5, 0.5, 1.0, 0.5)
    assert not {"目的", "好", "，"} & set(words.weights), "words whose weight follows from their characters"
    assert words.frequencies == {}


def test_a_model_reads_the_weights_of_words_in_training_and_prediction(table: PosTable, tmp_path: Path) -> None:
    save(grown(table, ("再者", "c")), tmp_path, {})
    rows = [("我的目的", "pos"), ("再者我好的话", "neg"), ("的确", "pos")]
    dev = [("好的确", "pos"), ("好", "neg")]
    view = encoded_in(tmp_path / "v", tmp_path, {"train": rows, "dev": dev, "test": dev})
    encoder = TransformerConfig(width=8, heads=1, depth=1, hidden=8, pos_weight="after").build(
        DataSpec(vocabulary=view.vocabulary, classes=2, max_length=9, pos_weight=torch.tensor(view.pos_weight()))
    )
    frame = template_of(view, 9, encoder)
    tokens = batches_of(view, "train", frame).gather(np.arange(2))
    assert tokens.word_weight is not None
    assert tokens.word_weight.tolist() == [[1.0, 0.5, 1.0, 1.0, OWN, OWN], [0.5, 0.5, 1.0, 1.0, 0.5, 0.5]]
    short = batches_of(view, "dev", template_of(view, 2, encoder)).gather(np.arange(1))
    assert short.word_weight is not None
    assert short.word_weight.tolist() == [[1.0, 0.5]], "words are found in what the model reads"
    plain = TransformerConfig(width=8, heads=1, depth=1, hidden=8).build(
        DataSpec(vocabulary=view.vocabulary, classes=2, max_length=9)
    )
    assert template_of(view, 9, plain).pos_words is None
    assert batches_of(view, "train", template_of(view, 9)).gather(np.arange(2)).word_weight is None


def test_a_saved_model_finds_the_weights_of_its_training(table: PosTable, tmp_path: Path) -> None:
    save(grown(table, ("呗好", "u")), tmp_path, {})
    texts = ["我的目的", "说呗好，的确", "好的话" * 3]
    rows = [(text, "pos") for text in texts]
    view = encoded_in(tmp_path / "v", tmp_path, dict.fromkeys(SPLITS, rows))
    recipe = RECIPES["transformer_f"]
    model = recipe.build(data_spec_of(view, 5))
    frame = template_of(view, 5, model)
    save_model(
        tmp_path / "model", model, recipe=recipe, frame=frame, labels=["neg", "pos"], tokenizer=view.tokenizer_json,
        facts={},
    )  # fmt: skip
    every = np.arange(3)
    found = Predictor(tmp_path / "model").batches(texts).gather(every).word_weight
    expected = batches_of(view, "test", frame).gather(every).word_weight
    assert found is not None and expected is not None
    assert torch.equal(found, expected)
    assert found.tolist() == [[1.0, 0.5, 1.0, 1.0, OWN], [1.0, 0.5, 0.5, 0.5, 0.5], [1.0, 0.5, 0.5, 1.0, 0.5]]


def test_an_english_word_view_has_rows_alone(table: PosTable, tmp_path: Path) -> None:
    save(table, tmp_path, {})
    rows = {split: [("within the film", "pos"), ("of a film", "neg")] for split in SPLITS}
    view = encoded_in(tmp_path / "v", tmp_path, rows, "en")
    assert view.pos_words is None
    assert not (view.folder / "entries.json").exists()
    pieces = encoded_in(tmp_path / "p", tmp_path, rows, "en", ViewSettings(tokenizer="wordpiece"))
    assert pieces.pos_words is not None
    assert len(pieces.entries()) == pieces.vocabulary


WORDS = PosWords(language="zh", pieces=False, notional=1.0, function=0.5, weights={"的": 0.5}, frequencies={"呗好": 3})


@pytest.mark.parametrize(("change", "expected"), [
    ({"weights": {"的": 1.5}}, "weights outside 0 to 1"),
    ({"notional": -0.1}, "weights outside 0 to 1"),
    ({"weights": {"的": "0.5"}}, r"pos_words\.weights does not have the type"),
    ({"frequencies": {"呗好": 0}}, "frequencies outside 1 to"),
    ({"frequencies": {"": 1}}, "frequencies outside 1 to"),
    ({"more": 1}, "must have the keys language, pieces"),
])  # fmt: skip
def test_damaged_words_are_refused(change: dict[str, Any], expected: str) -> None:
    assert PosWords.parse(asdict(WORDS), "config.json") == WORDS
    with pytest.raises(DataError, match=expected):
        PosWords.parse({**asdict(WORDS), **change}, "config.json")
    assert replace(WORDS, language="en").weight("A") == 1.0
