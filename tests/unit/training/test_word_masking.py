"""Tests of masking for pretraining: the words of a text, which of them are masked, and texts that are cut up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from epigram.core.arrays import Ragged
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.tokenizers import (
    SPECIALS,
    character_tokenizer,
    vocabulary_of,
    word_tokenizer,
    wordpiece_tokenizer,
)
from epigram.text.unlabelled import WordStarts
from epigram.training.pretraining.shards import split_rows, word_indices
from epigram.training.pretraining.word_masking import Masking


def starts(tokenizer: Tokenizer, texts: list[str], *, language: str, whole: bool) -> list[list[str]]:
    """Return the words of each text, joined from their tokens."""
    vocabulary = vocabulary_of(tokenizer)
    finder = WordStarts(vocabulary, language=language, pieces=not whole)
    found = TextEncoder(tokenizer).encode(texts, 100)
    words: list[list[str]] = []
    for ids, begins in zip(found.ids, found.ids.with_values(finder.find(found.ids)), strict=True):
        row: list[str] = []
        for index, begin in zip(ids, begins, strict=True):
            row = [*row, vocabulary[index]] if begin else [*row[:-1], row[-1] + vocabulary[index]]
        words.append(row)
    return words


def test_chinese_words_are_those_of_jieba() -> None:
    texts = ["这家饭店的服务员很热情 iphone好", "好吃"]
    letters = sorted(set("".join(texts)))
    by_letter = character_tokenizer([*SPECIALS, *letters])
    expected = [["这家", "饭店", "的", "服务员", "很", "热情", " ", "iphone", "好"], ["好吃"]]
    assert starts(by_letter, texts, language="zh", whole=True) == expected
    by_pieces = wordpiece_tokenizer([*SPECIALS, *letters, "ip", "##hone"])
    expected[0].remove(" ")
    expected[0][-2] = "ip##hone"
    assert starts(by_pieces, texts, language="zh", whole=False) == expected


def test_latin_words_beside_each_other_stay_apart_in_chinese() -> None:
    tokenizer = wordpiece_tokenizer([*SPECIALS, "ip", "##hone", "a", "pro", "好"])
    assert starts(tokenizer, ["iphone a pro好"], language="zh", whole=False) == [["ip##hone", "a", "pro", "好"]]


def test_a_character_that_the_vocabulary_lacks_is_no_part_of_a_word() -> None:
    tokenizer = character_tokenizer([*SPECIALS, *"饭店好"])
    assert starts(tokenizer, ["饭店凤好"], language="zh", whole=True) == [["饭店", "[UNK]", "好"]]


def test_english_words_are_those_of_their_pieces() -> None:
    tokenizer = wordpiece_tokenizer([*SPECIALS, "un", "##heard", "##of", "!", "film"])
    assert starts(tokenizer, ["unheardof film!"], language="en", whole=False) == [["un##heard##of", "film", "!"]]
    tokenizer = word_tokenizer([*SPECIALS, "good", "film"])
    assert starts(tokenizer, ["good film"], language="en", whole=True) == [["good", "film"]]


def masked(words: torch.Tensor, share: float = 0.15, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ids, the ids with masked words, and which tokens were chosen."""
    ids = torch.randint(10, 100, words.shape, generator=torch.Generator().manual_seed(1))
    masking = Masking(share=share, mask_id=4, ordinary=torch.arange(1_000, 2_000))
    hidden, chosen = masking(ids, words, torch.Generator().manual_seed(seed))
    return ids, hidden, chosen


def test_a_word_is_hidden_as_a_whole() -> None:
    words = (torch.arange(60) // 3).expand(500, -1)  # 20 words of 3 tokens
    ids, hidden, chosen = masked(words)
    kinds = torch.where(hidden == 4, 1, torch.where(hidden >= 1_000, 2, 3)) * chosen
    assert (kinds.view(500, 20, 3) == kinds.view(500, 20, 3)[..., :1]).all()
    assert torch.equal(hidden[~chosen], ids[~chosen])


def test_the_shares_are_those_of_the_paper() -> None:
    ids, hidden, chosen = masked(torch.arange(100).expand(2_000, -1))
    assert (chosen.sum(1) == 15).all()
    assert ((hidden == 4) & chosen).sum() / chosen.sum() == pytest.approx(0.8, abs=0.01)
    assert ((hidden >= 1_000) & chosen).sum() / chosen.sum() == pytest.approx(0.1, abs=0.01)
    assert ((hidden == ids) & chosen).sum() / chosen.sum() == pytest.approx(0.1, abs=0.01)


def test_every_text_hides_a_word_and_never_what_is_no_word() -> None:
    words = torch.tensor([[-1, 0, 0, -1, -1, -1], [-1, 0, -1, 1, 2, -1], [-1, -1, -1, -1, -1, -1]])
    for seed in range(20):
        _, _, chosen = masked(words, seed=seed)
        assert not chosen[words < 0].any()
        assert chosen[0].tolist() == [False, True, True, False, False, False]
        assert chosen[1].sum() == 1
        assert chosen[2].sum() == 0


def test_words_do_not_depend_on_how_often_one_occurs() -> None:
    long = torch.cat([torch.zeros(50), torch.arange(1, 10)]).long().expand(3_000, -1)  # one word of 50 tokens
    _, _, chosen = masked(long, share=0.1)
    assert chosen[:, 0].float().mean() == pytest.approx(0.1, abs=0.02)


def test_long_texts_are_cut_up_and_nothing_is_lost() -> None:
    begins = np.array([1, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 1], dtype=bool)
    pieces = split_rows(Ragged(begins, np.array([0, 3, 10, 14])), 4)
    assert pieces.offsets.tolist() == [0, 3, 7, 10, 14]
    assert word_indices(pieces).tolist() == [0, 0, 1, 0, 1, 1, 1, 0, 1, 2, 0, 1, 1, 2]
