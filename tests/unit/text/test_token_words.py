"""Tests of words and positions of tokens that include the preceding space, as in SentencePiece and byte-level BPE."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from epigram.core.arrays import Ragged
from epigram.inference.predictors.base_predictor import words_of as words_at_inference
from epigram.models.predict import Predicted
from epigram.text.tokens.alignment import label_first_tokens, word_numbers
from epigram.text.tokens.encoding import TextEncoder

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
