"""Unigram tokenizer from a SentencePiece model file, without the sentencepiece library.

The file is a protocol buffer (sentencepiece_model.proto). Only unigram models that normalize as the `tokenizers`
library can are read; the ids are the file's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from epigram.core.config_types import shown
from epigram.core.errors import DataError, InputMissingError, is_panic
from epigram.text.tokens.tokenizers import RARE_CHARACTERS, disable_padding_and_truncation

SPACE = "▁"
PIECES, NORMALIZER = 1, 3  # fields of the model
PIECE, SCORE, KIND = 1, 2, 3  # fields of a piece
CHARACTER_MAP = 2  # field of the normalizer
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4  # kinds of a piece
NEVER = -1e6  # score of a piece that no text may contain
PADDING = "<pad>"


def read_unigram(path: Path) -> Tokenizer:
    """Return the tokenizer of a model file. Texts cannot contain its special tokens <unk>, <s>, </s> and <pad>.

    The first user-defined piece becomes <pad>. Raises InputMissingError if the file is missing, DataError if it is not
    such a model.
    """
    if not path.is_file():
        raise InputMissingError(f"{path} is missing: check the view's checkpoint")
    try:
        tokenizer = _tokenizer(path.read_bytes())
        tokenizer.encode(RARE_CHARACTERS, add_special_tokens=False)  # fails for a damaged character map
        return tokenizer
    except BaseException as error:  # the library raises a bare Exception or panics
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise DataError(f"{path} is not a SentencePiece unigram model ({shown(repr(error))})") from None


def _tokenizer(data: bytes) -> Tokenizer:
    fields = list(_fields(data))
    pieces: list[dict[int, Any]] = [
        {SCORE: bytes(4), KIND: NORMAL} | dict(_fields(value)) for number, value in fields if number == PIECES
    ]
    normalizer = next(dict(_fields(value)) for number, value in fields if number == NORMALIZER)
    kinds = [piece[KIND] for piece in pieces]
    entries = [
        (piece[PIECE].decode(), struct.unpack("<f", piece[SCORE])[0] if piece[KIND] == NORMAL else NEVER)
        for piece in pieces
    ]
    entries[kinds.index(USER_DEFINED)] = PADDING, NEVER
    tokenizer = Tokenizer(models.Unigram(entries, unk_id=kinds.index(UNKNOWN)))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(normalizer[CHARACTER_MAP]),
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always", split=False)
    return disable_padding_and_truncation(tokenizer)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each field of a message: an integer, or the bytes of any other value.

    Raises IndexError or ValueError if the message is damaged.
    """
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(data, place)
            yield number, value
            continue
        size, place = (8, place) if wire == 1 else (4, place) if wire == 5 else _varint(data, place)
        if wire not in {1, 2, 5} or place + size > len(data):
            raise ValueError(f"damaged at byte {place}")
        yield number, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at `place`, seven bits a byte, and the place after it."""
    number, shift = 0, 0
    while True:
        number |= (data[place] & 127) << shift
        place, shift = place + 1, shift + 7
        if data[place - 1] < 128:
            return number, place
