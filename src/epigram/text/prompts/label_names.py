"""Tokens of the names of labels, if the labels are words of the tokenizer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokenizers import Tokenizer

from epigram.text.tokens.encoding import TextEncoder

SEPARATORS = re.compile(r"(?<=[a-z])(?=[A-Z])|[\W\d_]+")  # sci.space, not_spam, WrittenWork, label 1
WORD = re.compile("[\u4e00-\u9fff]|[^\\W\\d_]{2}")  # a Chinese character, or two letters
SPACES = " ▁"  # of a text, and of SentencePiece
BYTE = re.compile("<0x[0-9A-F]{2}>")


def name_words(name: str) -> str:
    """Return the words of a label's name, separated by spaces: WrittenWork → Written Work, sci.space → sci space."""
    return SEPARATORS.sub(" ", name).strip()


def label_tokens(names: Sequence[str], tokenizer: Tokenizer, max_length: int) -> list[list[int]]:
    """Return the first `max_length` token ids of the words of each label's name, or [] if the labels are not words.

    They are words if each name has a word of at least two letters or a Chinese character, no two names have the same
    words, and the tokenizer knows a part of each name that is not a single byte.
    """
    words = [name_words(name) for name in names]
    if len({each.casefold() for each in words}) < len(words) or not all(WORD.search(each) for each in words):
        return []
    encoder = TextEncoder(tokenizer)
    rows: list[list[int]] = [row.tolist() for row in encoder.encode(words, max_length).ids]
    return rows if all(any(_is_known(index, tokenizer, encoder.unk_id) for index in row) for row in rows) else []


def _is_known(index: int, tokenizer: Tokenizer, unknown: int) -> bool:
    """Return whether a token is neither unknown nor a space nor a part of a character."""
    if index == unknown or BYTE.fullmatch(str(tokenizer.id_to_token(index))):
        return False
    text = tokenizer.decode([index])  # a part of a character becomes U+FFFD
    return "\ufffd" not in text and text.strip(SPACES) != ""
