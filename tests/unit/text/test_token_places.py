"""Tests of the texts and places of tokens, and of the words that inference gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from epigram.text.dataset.encoded_dataset import View
from epigram.text.settings import ViewSettings
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
