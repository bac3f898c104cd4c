from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from epigram.core.errors import DataError, InputMissingError
from epigram.text.settings import EncodeSettings
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.pretrained_tokenizers import read_checkpoint
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
print(json.dumps(train_wordpiece(texts, int(sys.argv[1]), 1)))
"""


@pytest.mark.parametrize("size", [120, 300])
def test_pieces_are_the_same_on_every_run_and_number_of_threads(size: int) -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", PIECES_SCRIPT, str(size)],
            env={**os.environ, "RAYON_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "2")
    ]
    assert len(set(runs)) == 1
    vocabulary = json.loads(runs[0])
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
