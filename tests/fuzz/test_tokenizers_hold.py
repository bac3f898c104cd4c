"""Properties of tokenizers for arbitrary texts: correct offsets, no lost characters, no text read as a mask token."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from epigram.core.errors import DataError
from epigram.text.lines import decode_lines
from epigram.text.tokens.alignment import find_misaligned, word_numbers
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.token_characters import CharacterEncoder
from epigram.text.tokens.tokenizers import (
    SPECIALS,
    character_tokenizer,
    split_words,
    vocabulary_of,
    word_tokenizer,
    wordpiece_tokenizer,
)
from tests.support.budget import cases
from tests.support.budget import texts as nasty

VOCABULARY = [*SPECIALS, *"好差店a9 ,😀\n'", "good", "n't", "##d", "film", "don", "3.5", "é", "ﬁ"]
MANY = st.lists(nasty, max_size=4)
KINDS = {"character": character_tokenizer, "word": word_tokenizer, "piece": wordpiece_tokenizer}


@cache
def encoder(kind: str) -> TextEncoder:
    return TextEncoder(tokenizer(kind))


@cache
def tokenizer(kind: str) -> Tokenizer:
    return KINDS[kind](VOCABULARY)


@cases(750)
@given(nasty)
def test_characters_are_tokens_as_they_stand(text: str) -> None:
    known = {entry: place for place, entry in enumerate(VOCABULARY) if len(entry) == 1}
    ids = encoder("character").encode([text], 10**6).ids.values.tolist()
    assert ids == ([known.get(character, 1) for character in text] or [1])
    assert character_tokenizer([*SPECIALS, *sorted(set(text))]).decode(ids, skip_special_tokens=False) is not None


@cases(600)
@given(nasty)
def test_a_text_whose_characters_are_known_is_read_back(text: str) -> None:
    assume(text)
    vocabulary = [*SPECIALS, *sorted(set(text))]
    ids = TextEncoder(character_tokenizer(vocabulary)).encode([text], 10**6).ids.values
    assert "".join(vocabulary[index] for index in ids) == text


@pytest.mark.parametrize("kind", ["word", "piece"])
@cases(600)
@given(text=nasty)
def test_tokens_stand_in_order_and_cover_the_text(kind: str, text: str) -> None:
    found = encoder(kind).encode_with_positions([text], 10**6)
    assume(found.spans[-1].any())
    spans = found.spans
    assert (spans[:, 0] < spans[:, 1]).all()
    assert (np.diff(spans[:, 0]) >= 0).all()
    assert (np.diff(found.words) >= 0).all()
    assert 0 <= spans.min() <= spans.max() <= len(text)
    covered = np.zeros(len(text), bool)
    for start, end in spans:
        covered[start:end] = True
    if kind == "word":
        assert not any(character.isalnum() and not mark for character, mark in zip(text, covered, strict=True))


@cases(600)
@given(nasty)
def test_words_are_what_stands_in_the_text(text: str) -> None:
    normal = tokenizer("word").normalizer.normalize_str(text)
    words = next(split_words([text]))
    assert "".join(words) == "".join(word for word in normal if not word.isspace()) or not normal.isprintable()


@pytest.mark.parametrize("kind", KINDS)
@cases(500)
@given(texts=MANY, room=st.integers(1, 12))
def test_many_texts_are_read_as_one_by_one_and_cut_at_their_end(kind: str, texts: list[str], room: int) -> None:
    each = [encoder(kind).encode([text], 10**6).ids.values.tolist() for text in texts]
    found = encoder(kind).encode(texts, room)
    assert [ids.tolist() for ids in found.ids] == [ids[:room] for ids in each]
    assert found.truncated == sum(len(ids) > room for ids in each)
    assert encoder(kind).encode_with_positions(texts, room).ids.values.tolist() == found.ids.values.tolist()


@pytest.mark.parametrize("kind", KINDS)
@cases(500)
@given(before=nasty, after=nasty, forged=st.sampled_from(SPECIALS[2:]))
def test_no_text_forges_a_special_token(kind: str, before: str, after: str, forged: str) -> None:
    ids = set(encoder(kind).encode([f"{before}{forged}{after}"], 10**6).ids.values.tolist())
    assert ids.isdisjoint({0, 2, 3, 4})


@cases(500)
@given(st.lists(nasty.filter(str.strip), min_size=1, max_size=3))
def test_labelled_words_find_their_tokens(texts: list[str]) -> None:
    words = [text.split() for text in texts]
    assert find_misaligned(texts, words) is None
    found = encoder("character").encode_with_positions(texts, 10**6)
    numbers = word_numbers(texts, words, found)
    for row, number in enumerate(found.ids.with_values(numbers)):
        assert (np.diff(number) >= 0).all()
        assert 0 <= number.min() <= number.max() < len(words[row])


@cases(500)
@given(nasty, st.text(max_size=6).map(lambda text: "".join(dict.fromkeys(text))))
def test_spelling_names_every_character(text: str, characters: str) -> None:
    found = encoder("word").encode_with_positions([text], 10**6)
    spelled = CharacterEncoder(characters).encode([text], found) if characters else None
    assume(spelled is not None and text)
    assert spelled is not None
    for ids, (start, end) in zip(spelled, found.spans, strict=True):
        piece = text[start:end][:20]
        assert ids.tolist() == [characters.find(letter) + 2 if letter in characters else 1 for letter in piece]


@cases(300)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), max_size=9, unique=True))
def test_any_vocabulary_is_kept_by_its_tokenizer(words: list[str]) -> None:
    vocabulary = list(dict.fromkeys([*SPECIALS, *words]))
    for make in KINDS.values():
        assert vocabulary_of(Tokenizer.from_str(make(vocabulary).to_str())) == vocabulary


@cases(200)
@given(st.text(st.characters(categories=["Cs"]), min_size=1, max_size=3), st.sampled_from(sorted(KINDS)))
def test_half_a_character_is_named(text: str, kind: str) -> None:
    with pytest.raises(DataError, match="not valid Unicode"):
        encoder(kind).encode([f"好{text}"], 9)


@cases(750)
@example([b"\0\0\0"])  # with its line end, a line end in UTF-32
@given(st.lists(st.binary(max_size=20) | nasty.map(str.encode), max_size=5))
def test_lines_from_outside_are_texts_or_named(lines: list[bytes]) -> None:
    try:
        found = list(decode_lines([line + b"\n" for line in lines], "stdin line"))
    except DataError as error:
        assert str(error).startswith("stdin line ")
        assert "\n" not in str(error)
    else:
        assert all("\n" not in text and "\r" not in text and "\0" not in text for text in found)
        with suppress(UnicodeDecodeError):
            whole = b"".join(line + b"\n" for line in lines).decode()
            assert found == re.split("\r*\n|\r", whole.removeprefix("\ufeff"))[:-1]
