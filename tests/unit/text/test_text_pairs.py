"""Pairs of texts: their tokens and segments are the tokenizer's own, and a model can tell the sides apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, processors
from transformers import BertModel, PreTrainedTokenizerFast

from epigram.core.pairs import PAIR
from epigram.hf import build_post_processor
from epigram.inference.explanations.words import find_words, sum_by_word
from epigram.models.text_template import TextTemplate
from epigram.nn.encoders.pretrained import segment_ids
from epigram.nn.layers.types import Tokens
from epigram.recipes.registry import RECIPES
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.tokenizers import (
    SPECIALS,
    character_tokenizer,
    special_ids,
    word_tokenizer,
    wordpiece_tokenizer,
)
from tests.support.families import checkpoint, context

WORDS = ["is", "it", "cold", "no", "##t", "warm", "?"]
PAIRS = [("Is it cold?", "not warm"), (" no", "[SEP] it "), ("", "warm"), ("cold", "cold is cold")]


def with_template(kind: str) -> Tokenizer:
    """Return a tokenizer with the template for pairs of BERT or RoBERTa."""
    tokenizer = wordpiece_tokenizer([*SPECIALS, *WORDS])
    special = special_ids(tokenizer)
    assert special.sep is not None and special.cls is not None
    ends = ("[SEP]", special.sep), ("[CLS]", special.cls)
    template = processors.BertProcessing if kind == "bert" else processors.RobertaProcessing
    tokenizer.post_processor = template(*ends)
    return tokenizer


@pytest.mark.parametrize(("kind", "separators"), [("bert", 1), ("roberta", 2)])
def test_the_tokens_are_those_of_the_transformers_library(kind: str, separators: int) -> None:
    tokenizer = with_template(kind)
    library = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, sep_token="[SEP]", cls_token="[CLS]", split_special_tokens=True
    )
    expected = [library(*pair)["input_ids"][1:-1] for pair in PAIRS]
    texts = [PAIR.join(pair) for pair in PAIRS]
    encoder = TextEncoder(tokenizer, PAIR)
    assert [row.tolist() for row in encoder.encode(texts, 99).ids] == expected
    assert [row.tolist() for row in encoder.encode_with_positions(texts, 99).ids] == expected
    adapter = with_template(kind)
    frame = TextTemplate(
        language="en", max_length=99, prefix_ids=[3], suffix_ids=[2], pad_id=0, unk_id=1, mask_id=None, vocabulary=99
    )
    adapter.post_processor = build_post_processor(frame, adapter)
    assert [adapter.encode(*pair).ids for pair in PAIRS] == [[3, *ids, 2] for ids in expected]
    separator = special_ids(tokenizer).sep
    assert expected[0].count(separator) == separators
    cut = encoder.encode(texts, 5)
    assert [row.tolist() for row in cut.ids] == [row[:5] for row in expected]
    assert cut.truncated == sum(len(row) > 5 for row in expected) > 0
    assert encoder.encode([f"it{PAIR}"], 9).ids.values.tolist() == [6, *[separator] * separators]
    assert separator not in TextEncoder(tokenizer).encode(texts, 99).ids.values  # the character alone is no separator


@pytest.mark.parametrize(
    "tokenizer", [word_tokenizer([*SPECIALS, "is", "it"]), character_tokenizer([*SPECIALS, *"isit"[:2]])]
)
def test_positions_are_places_in_the_whole_text(tokenizer: Tokenizer) -> None:
    text = f"it is{PAIR} it"
    tokens = TextEncoder(tokenizer, PAIR).encode_with_positions([text, f"{PAIR}is"], 99)
    first = tokens.ids.values[: tokens.ids.lengths[0]]
    separator = special_ids(tokenizer).sep
    place = first.tolist().index(separator)
    assert tokens.spans[place].tolist() == [5, 5]
    assert tokens.words[place] == tokens.words[place - 1] < tokens.words[place + 1]
    spans = tokens.spans[: len(first)]
    assert "".join(text[start:end] for start, end in spans.tolist()).replace(" ", "") == "itisit"
    words = find_words(text, "en")
    assert [text[start:end] for start, end in words.tolist()] == ["it", "is", "it"]
    scores = sum_by_word(np.where(np.arange(len(first)) == place, 8.0, 0.0), spans, words)
    assert scores.tolist() == [0, 8, 0]  # the separator belongs to the preceding word
    assert tokens.spans[len(first) :].tolist()[-1][1] == 3


def test_the_segments_of_an_encoder_are_the_sides(tmp_path: Path) -> None:
    """[CLS] a [SEP] b [SEP] with the segments 0 0 0 1 1, as the library's model reads them."""
    folder = str(checkpoint("bert", tmp_path))
    ids = torch.tensor([[2, 20, 3, 21, 22, 3], [2, 20, 21, 3, 22, 3]])
    segments = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]])
    assert torch.equal(segment_ids(ids, 3), segments)
    assert torch.equal(segment_ids(torch.tensor([[2, 20, 3, 1, 1]]), 3)[:, :3], torch.zeros(1, 3, dtype=torch.int64))
    recipe = RECIPES["bert"].starting_from(folder)
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool))
    library = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    for pairs, given in ((True, segments), (False, torch.zeros_like(ids))):
        model = recipe.build(context(checkpoint=folder, prefix_ids=(2,), suffix_ids=(3,), pairs=pairs)).eval()
        with torch.inference_mode():
            found = model.encoder(tokens).last
            expected = library(input_ids=ids, token_type_ids=given).last_hidden_state
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
