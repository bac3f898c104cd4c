"""Tests of the rule for labels that are words, and of the tokens of their names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from epigram.core.errors import DataError
from epigram.text.dataset.encoded_dataset import View
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.text.prompts.prompts import label_tokens, name_words
from epigram.text.tokens.tokenizers import SPECIALS, wordpiece_tokenizer
from tests.support.text_samples import EN

WORDS = [
    "sports",
    "business",
    "written",
    "work",
    "sci",
    "space",
    "star",
    "stars",
    "label",
    "class",
    "good",
    "a",
    "b",
    "ok",
]
ENGLISH = wordpiece_tokenizer([*SPECIALS, *WORDS, "体", "##s"])
ID = {word: place for place, word in enumerate([*SPECIALS, *WORDS])}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("WrittenWork", "Written Work"),
        ("sci.space", "sci space"),
        ("not_spam", "not spam"),
        ("Sci/Tech", "Sci Tech"),
        ("5 stars", "stars"),
        ("体育", "体育"),
        ("USA", "USA"),
    ],
)
def test_the_words_of_a_name(name: str, words: str) -> None:
    assert name_words(name) == words


def test_the_tokens_of_the_names_in_their_order() -> None:
    wanted = [[ID["written"], ID["work"]], [ID["sci"], ID["space"]], [ID["sports"]]]
    assert label_tokens(["WrittenWork", "sci.space", "sports"], ENGLISH, 8) == wanted
    assert label_tokens(["WrittenWork", "sci.space", "sports"], ENGLISH, 1) == [row[:1] for row in wanted]


@pytest.mark.parametrize(
    "names",
    [
        ["0", "1"],
        ["a", "b"],
        ["a1b", "good"],  # no two letters side by side
        ["label_0", "label_1"],  # the same words
        ["class", "Class"],
        ["sports", "3"],
        ["sports", "育"],  # unknown to the tokenizer
        ["sports", "?"],
        ["sports", "nonsense"],
    ],
)
def test_labels_that_are_no_words(names: list[str]) -> None:
    assert label_tokens(names, ENGLISH, 8) == []


@pytest.mark.parametrize(
    "names", [["star 1", "5 stars"], ["sports", "体"], ["sports", "体育"], ["sports nonsense", "ok"]]
)
def test_labels_that_are_words(names: list[str]) -> None:
    assert len(label_tokens(names, ENGLISH, 8)) == 2


def with_special(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.add_special_tokens(["<pad>", "<unk>"])
    return tokenizer


def test_bytes_of_a_byte_level_vocabulary_are_no_words() -> None:
    """Only the letters of "good" are merged; 育 is three bytes, é two, and both are known to no one."""
    symbols = {letter: place for place, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(
        models.BPE({**symbols, "go": 256, "od": 257, "good": 258}, [("g", "o"), ("o", "d"), ("go", "od")])
    )
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    assert label_tokens(["good", "育儿"], with_special(tokenizer), 8) == []
    assert len(label_tokens(["good", "bad"], tokenizer, 8)) == 2


@pytest.mark.parametrize("decoder", [None, decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])])
def test_bytes_of_a_vocabulary_with_byte_fallback_are_no_words(decoder: Any) -> None:
    pieces = [("<unk>", 0.0), ("▁", -2.0), ("▁good", -1.0), *((f"<0x{byte:02X}>", -9.0) for byte in range(256))]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    if decoder is not None:
        tokenizer.decoder = decoder
    assert label_tokens(["good", "育儿"], with_special(tokenizer), 8) == []
    assert len(label_tokens(["good", "育儿 good"], tokenizer, 8)) == 2


def test_an_unknown_token_that_is_not_special_is_no_word() -> None:
    """The library decodes it as its name."""
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("<pad>", 0.0), ("good", -1.0), ("bad", -1.0)], unk_id=0))
    assert label_tokens(["good", "育儿"], tokenizer, 8) == []
    assert label_tokens(["good", "bad"], tokenizer, 8) == [[2], [3]]


def test_a_view_has_the_tokens_of_the_labels(encoded: Callable[..., View]) -> None:
    rows = {**EN, "train": [("neg pos", "pos"), ("good film", "neg")]}
    view = encoded(rows, "en")
    entries = json.loads(view.tokenizer_json.read_text(encoding="utf-8"))["model"]["vocab"]
    assert view.label_tokens == [[entries["neg"]], [entries["pos"]]]


def test_names_of_the_source_replace_the_labels(encoded: Callable[..., View], monkeypatch: pytest.MonkeyPatch) -> None:
    read = ValidatedCorpus.read
    named = lambda folder: replace(read(folder), label_names=["film", "good"])  # noqa: E731
    monkeypatch.setattr(ValidatedCorpus, "read", named)
    view = encoded({**EN, "train": [("neg pos", "pos"), ("good film", "neg")]}, "en")
    entries = json.loads(view.tokenizer_json.read_text(encoding="utf-8"))["model"]["vocab"]
    assert view.label_tokens == [[entries["film"]], [entries["good"]]]


@pytest.mark.parametrize("tokens", [[[1]], [[1], [99999]], [[1], [-1]]])
def test_a_damaged_view_is_refused(encoded: Callable[..., View], tokens: list[list[int]]) -> None:
    path = encoded(EN, "en").folder / "view.json"
    content = {**json.loads(path.read_text(encoding="utf-8")), "label_tokens": tokens}
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=r"view\.json.*run dvc repro"):
        View.load(path.parent)
