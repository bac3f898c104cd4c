"""Words, texts and places of tokens, also if tokens include the preceding space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from epigram.core.arrays import Ragged
from epigram.inference.predictors.base_predictor import words_of as words_at_inference
from epigram.models.predict import Predicted
from epigram.text.dataset.encoded_dataset import View
from epigram.text.settings import ViewSettings
from epigram.text.tokens.alignment import label_first_tokens, word_numbers
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.token_characters import CharacterEncoder
from epigram.text.tokens.tokenizers import (
    SPECIALS,
    character_tokenizer,
    word_tokenizer,
    wordpiece_tokenizer,
)
from tests.support.text_samples import EN, nasty
from tests.support.token_labels import LABELLED, NAMES

TEXTS, WORDS = ["New York  is", "York New"], [["New", "York", "is"], ["York", "New"]]


def by_metaspace(*entries: str) -> Tokenizer:
    vocabulary = [("[UNK]", 0.0), ("[PAD]", 0.0), ("▁", -1.0), *((entry, -2.0) for entry in entries)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


def by_bytes(*, trim: bool | None) -> Tokenizer:
    vocabulary = {entry: n for n, entry in enumerate(["[UNK]", "[PAD]", "New", "York", "ĠYork", "ĠNew", "Ġ", "Ġis"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if trim is not None:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim)
    return tokenizer


BYTES = ["New", "ĠYork", "Ġ", "Ġis", "York", "ĠNew"]
CASES: dict[str, tuple[Tokenizer, list[str], list[int]]] = {
    "a blank is part of the word": (
        by_metaspace("▁New", "▁York", "▁is"),
        ["▁New", "▁York", "▁", "▁is", "▁York", "▁New"],
        [0, 1, 1, 2, 0, 1],
    ),
    "a blank is a token of its own": (
        by_metaspace("▁New", "York", "▁is"),
        ["▁New", "▁", "York", "▁", "▁is", "▁", "York", "▁New"],
        [0, 0, 1, 1, 2, 0, 0, 1],
    ),
    "bytes": (by_bytes(trim=None), BYTES, [0, 1, 1, 2, 0, 1]),
    "bytes, spans with blanks": (by_bytes(trim=False), BYTES, [0, 1, 1, 2, 0, 1]),
    "bytes, spans without blanks": (by_bytes(trim=True), BYTES, [0, 1, 1, 2, 0, 1]),
}


@pytest.mark.parametrize(("tokenizer", "entries", "numbers"), CASES.values(), ids=CASES)
def test_a_token_belongs_to_the_word_behind_its_blank(tokenizer: Any, entries: list[str], numbers: list[int]) -> None:
    found = TextEncoder(tokenizer).encode_with_positions(TEXTS, 99)
    assert [tokenizer.id_to_token(int(token)) for token in found.ids.values] == entries
    assert word_numbers(TEXTS, WORDS, found).tolist() == numbers
    row = found.ids.row_numbers()
    written = [TEXTS[n][a:b] for n, (a, b) in zip(row, found.spans.tolist(), strict=True)]
    assert all(part == part.strip() for part in written)


@pytest.mark.parametrize(("tokenizer", "entries", "numbers"), CASES.values(), ids=CASES)
def test_the_token_with_a_words_label_is_the_one_that_labels_it(
    tokenizer: Any, entries: list[str], numbers: list[int]
) -> None:
    found = TextEncoder(tokenizer).encode_with_positions(TEXTS, 99)
    gold = Ragged.from_lists([[1, 2, 3], [4, 5]], np.int64)
    labels = label_first_tokens(gold, word_numbers(TEXTS, WORDS, found), found.ids)
    said = np.eye(6, dtype=np.float32)[np.maximum(labels, 0)]  # a perfect model; label 0 for unlabelled tokens
    predicted = Predicted(np.zeros((2, 1), np.float32), None, tokens=said, counts=found.ids.lengths)
    answers = words_at_inference(TEXTS, found, predicted, list("ONYIyn"))
    assert [[(word.text, word.start, word.label) for word in row] for row in answers] == [
        [("New", 0, "N"), ("York", 4, "Y"), ("is", 10, "I")],
        [("York", 0, "y"), ("New", 5, "n")],
    ]


def spelled(view: View, split: str) -> list[str]:
    part = view.split(split)
    assert part.characters is not None
    letters = ["", "?", *view.characters]
    return ["".join(letters[c] for c in word) for word in part.characters]


@pytest.mark.parametrize("token_labels", [(), NAMES])
def test_tokens_are_spelled_as_they_stand_in_the_text(encoded: Any, token_labels: Any) -> None:
    rows = {split: [row if token_labels else row[:2] for row in part] for split, part in LABELLED.items()}
    view = encoded(rows, "en", ViewSettings(characters=True), token_labels=token_labels)
    assert view.characters[:2] == "la", "the most frequent letters of train lead"
    assert spelled(view, "train")[-5:] == ["Playing", "is", "dull", "played", "well"]
    assert view.split("test").ids.values[-1] == view.unk_id
    assert spelled(view, "test") == ["a", "dull", "?e??a"], "z, b and r do not occur in train"
    assert spelled(view, "dev")[1:] == ["n?", "w??ds", "?e?e"]
    pieces = encoded(rows, "en", ViewSettings(tokenizer="wordpiece", characters=True), token_labels=token_labels)
    assert "".join(spelled(pieces, "train")) == "".join(row[0] for row in rows["train"]).replace(" ", "")


def test_characters_seen_less_than_min_count_times_have_no_id(encoded: Any) -> None:
    rows = {**EN, "train": [("abba", "pos"), ("cab", "neg")]}
    view = encoded(rows, "en", ViewSettings(characters=True), min_count=2)
    assert view.characters == "ab", "three of each; c occurs once"


def test_at_most_twenty_characters_of_a_token_are_kept(encoded: Any) -> None:
    view = encoded({**EN, "dev": [("a" * 50 + " is", "pos")]}, "en", ViewSettings(characters=True))
    assert spelled(view, "dev") == ["a" * 20, "is"]
    assert view.split("dev").characters.values.tolist().count(view.characters.index("a") + 2) == 20


VOCABULARY = [*SPECIALS, "a", "z", "##a", "9", "你", "的", "don", "n't", "'s", "3.5", " "]
TOKENIZERS = {"character": character_tokenizer, "word": word_tokenizer, "wordpiece": wordpiece_tokenizer}


@pytest.mark.parametrize("make", TOKENIZERS.values(), ids=TOKENIZERS)
@given(texts=nasty)
def test_located_tokens_are_the_encoded_ones_whatever_the_text(make: Any, texts: str) -> None:
    encoder, rows = TextEncoder(make(VOCABULARY)), [texts, "a", texts[::-1]]
    plain, found = encoder.encode(rows, 7), encoder.encode_with_positions(rows, 7)
    assert np.array_equal(plain.ids.values, found.ids.values)
    assert np.array_equal(plain.ids.offsets, found.ids.offsets)
    assert plain.truncated == found.truncated
    sizes = found.ids.spread(np.array([len(row) for row in rows]))
    assert ((found.spans[:, 0] >= 0) & (found.spans[:, 0] <= found.spans[:, 1]) & (found.spans[:, 1] <= sizes)).all()
    letters = CharacterEncoder("az你").encode(rows, found)
    assert letters.offsets[-1] == len(letters.values)
    assert len(letters) == len(found.ids.values)


def test_inference_gets_words_and_places() -> None:
    found = TextEncoder(wordpiece_tokenizer([*SPECIALS, "play", "##ing", "is", "fun"])).encode_with_positions(
        ["fun", "Playing  is fun"], 9
    )
    assert found.words.tolist() == [0, 0, 0, 1, 2]
    assert [("fun", "Playing  is fun")[row][a:b] for row, (a, b) in zip([0, 1, 1, 1, 1], found.spans, strict=True)] == [
        "fun", "Play", "ing", "is", "fun",
    ]  # fmt: skip


def test_a_character_is_a_word_and_blanks_belong_to_the_word_before() -> None:
    found = TextEncoder(character_tokenizer([*SPECIALS, "好", " "])).encode_with_positions(["好 \u3000吃", "好"], 9)
    assert found.ids.values.tolist() == [5, 6, 1, 1, 5]
    assert found.words.tolist() == [0, 0, 0, 3, 0]
    assert found.spans.tolist() == [[0, 1], [1, 1], [1, 1], [3, 4], [0, 1]]
