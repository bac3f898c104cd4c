"""MHAL's encoder against NumPy: spellings, words, language models and the whole loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from epigram.models.classifier import Classifier
from epigram.nn.encoders.char_bilstm import CharBiLstmConfig, CharBiLstmEncoder
from epigram.nn.heads.attention_labeler import AttentionLabelerConfig
from epigram.nn.layers.char_lstm import CharLstm
from epigram.nn.layers.language_model import LanguageModel
from epigram.nn.layers.types import DataSpec, Tokens
from tests.parity.reference import mhal as paper
from tests.parity.reference.batches import assert_rows, padded, padded_ids, pair, scattered, texts
from tests.parity.reference.common import Array
from tests.parity.reference.lstm import Lstm, bilstm
from tests.parity.reference.weights import array, lstm_of
from tests.support.mhal import CHARACTERS, GOLD, SAME, WIDTH

IDS = [[3, 4, 5, 3, 9], [7], [11, 2, 2, 8, 6, 5, 1, 10, 4], [3, 7, 12, 12, 1, 6, 2, 2, 5, 9, 1, 1], [10, 4]]
SPELLINGS = [[2, 3, 4], [5], [2, 3, 4], [10, 9, 8, 7, 6], [3, 2], [5]]


def directions(lstm: torch.nn.LSTM) -> tuple[Lstm, Lstm]:
    def one(suffix: str) -> Lstm:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        inputs, states, first, second = (array(getattr(lstm, f"{name}_l0{suffix}")) for name in names)
        return Lstm(inputs, states, first + second)

    return one(""), one("_reverse")


def spelling_reading(speller: CharLstm, characters: list[int]) -> Array:
    return paper.spelled(characters, array(speller.embedding.weight), *directions(speller.lstm), pair(speller.project))


def speller(model: LanguageModel | None = None) -> CharLstm:
    return scattered(CharLstm(characters=CHARACTERS, embedding=5, hidden=4, width=6, model=model))


def character_ids(spellings: list[list[int]], width: int = 5) -> torch.Tensor:
    return torch.tensor([row + [0] * (width - len(row)) for row in spellings])


@pytest.mark.parametrize("width", [5, 9])
def test_spelling_by_the_last_states(width: int) -> None:
    part = speller()
    got, cost = part(character_ids(SPELLINGS, width))
    wanted = np.stack([spelling_reading(part, row) for row in SPELLINGS])
    np.testing.assert_allclose(array(got), wanted, atol=1e-9)
    assert cost is None


def test_a_token_without_characters_is_spelled_by_none() -> None:
    part = speller()
    got, _ = part(character_ids([[], [3]]))
    np.testing.assert_allclose(array(got), np.stack([spelling_reading(part, row) for row in ([0], [3])]), atol=1e-9)
    only, _ = part(character_ids([[]], 1))
    torch.testing.assert_close(only[0], got[0])


def language_model(vocabulary: int, most: int) -> LanguageModel:
    return scattered(LanguageModel(width=WIDTH, hidden=3, vocabulary=vocabulary, max_vocabulary=most))


def cost_reading(model: LanguageModel, states: Array, ids: list[int]) -> float:
    ahead, back = ([pair(guess.hidden), pair(guess.out)] for guess in (model.ahead, model.back))
    return paper.language_model(states, ids, ahead, back, model.other)


@pytest.mark.parametrize("most", [4, 13, 7_500], ids=["others", "all", "fewer words than known"])
def test_language_model_of_both_directions(most: int) -> None:
    model = language_model(13, most)
    rows, tokens = texts([len(ids) for ids in IDS], WIDTH), padded_ids(IDS, pad_id=4)
    states, valid = padded(rows)
    counts = torch.tensor([1, 2, 1, 3, 1])
    wanted = sum(int(n) * cost_reading(model, row, ids) for n, row, ids in zip(counts, rows, IDS, strict=True))
    wanted /= 2 * sum(int(n) * len(ids) for n, ids in zip(counts, IDS, strict=True))
    loss = model(states[valid], tokens.ids, valid, counts)
    assert float(loss.mean.detach()) == pytest.approx(wanted, rel=1e-6)
    predictions = 2 * (5 * 1 + 1 * 2 + 9 * 1 + 12 * 3 + 2 * 1)  # two directions; the lengths of IDS times `counts`
    assert int(loss.predictions) == predictions
    assert float(loss.total.detach()) == pytest.approx(predictions * wanted, rel=1e-6)


def spelled_tokens() -> tuple[Tokens, list[list[list[int]]]]:
    generator = np.random.default_rng(5)
    words = {word: generator.integers(1, CHARACTERS, 1 + word % 4).tolist() for word in range(13)}
    tokens = padded_ids(IDS, pad_id=4)
    spellings = [[words[word] for word in ids] for ids in IDS]
    characters = torch.full((*tokens.ids.shape, 4), 9)
    for i, row in enumerate(spellings):
        for j, word in enumerate(row):
            characters[i, j] = torch.tensor(word + [0] * (4 - len(word)))
    return replace(tokens, characters=characters), spellings


def encoder_of(context: DataSpec, **settings: Any) -> CharBiLstmEncoder:
    sizes = {"embedding": 6, "width": 5, "character_embedding": 4, "character_width": 3, "spelling": 4}
    return scattered(CharBiLstmConfig(**sizes, dropout=0.0, **settings).build(context))


def states_reading(encoder: CharBiLstmEncoder, ids: list[int], spellings: list[list[int]]) -> Array:
    x = array(encoder.embedding.token.weight)[ids]
    if encoder.speller is not None:
        spelled = np.stack([spelling_reading(encoder.speller, word) for word in spellings])
        x = np.concatenate([x, spelled], axis=1)
    return bilstm(x, lstm_of(encoder.words.ahead), lstm_of(encoder.words.back))[0]


@pytest.mark.parametrize("characters", [CHARACTERS, 0], ids=["spelled", "not spelled"])
def test_eq1_2_states_of_words_and_spellings(characters: int) -> None:
    encoder = encoder_of(replace(SAME, characters=characters))
    tokens, spellings = spelled_tokens()
    wanted = [states_reading(encoder, ids, words) for ids, words in zip(IDS, spellings, strict=True)]
    got = encoder(tokens)
    assert_rows(got.last, wanted, 1e-9)
    assert got.cost is None and got.last.shape[-1] == encoder.width == 10


def character_cost(encoder: CharBiLstmEncoder, word: list[int]) -> float:
    assert encoder.speller is not None and encoder.speller.model is not None
    states, _, _ = bilstm(array(encoder.speller.embedding.weight)[word], *directions(encoder.speller.lstm))
    return cost_reading(encoder.speller.model, states, word)


@pytest.mark.parametrize("lm_loss", ["mean", "sum"])
def test_language_models_cost_of_every_word_and_every_token_s_characters(lm_loss: str) -> None:
    encoder = encoder_of(SAME, lm_weight=0.1, lm_loss=lm_loss, lm_hidden=3, lm_vocabulary=8).train()
    assert encoder.word_model is not None
    tokens, spellings = spelled_tokens()
    word_costs = [
        cost_reading(encoder.word_model, states_reading(encoder, ids, words), ids)
        for ids, words in zip(IDS, spellings, strict=True)
    ]
    spelled = [word for words in spellings for word in words]
    words, characters = sum(word_costs), sum(character_cost(encoder, word) for word in spelled)
    wanted = (words + characters) / len(IDS)  # per text
    if lm_loss == "mean":  # per prediction of two directions, half from words and half from characters
        wanted = (words / sum(map(len, IDS)) + characters / sum(map(len, spelled))) / 4
    cost = encoder(tokens).cost
    assert cost is not None
    assert float(cost.detach()) == pytest.approx(0.1 * wanted, rel=1e-6)
    assert encoder.eval()(tokens).cost is None


def test_the_whole_loss_is_the_heads_and_the_language_models() -> None:
    encoder = encoder_of(SAME, lm_weight=0.1, lm_hidden=3)
    head = AttentionLabelerConfig(hidden=9, attention_weight=0.01, query_weight=0.5).build(SAME, encoder)
    model, (tokens, _) = Classifier(encoder, head).double().train(), spelled_tokens()
    alone, cost = head(encoder(tokens), torch.tensor(GOLD)).loss, encoder(tokens).cost
    torch.testing.assert_close(model(tokens, torch.tensor(GOLD)).loss, alone + len(IDS) * cost, check_dtype=False)


def test_summed_language_models_make_the_loss_of_a_batch_the_sum_of_its_texts() -> None:
    encoder = encoder_of(SAME, lm_weight=0.1, lm_loss="sum", lm_hidden=3)
    head = AttentionLabelerConfig(hidden=9, attention_weight=0.01, query_weight=0.5).build(SAME, encoder)
    model, (tokens, _) = Classifier(encoder, head).double().train(), spelled_tokens()
    whole = model(tokens, torch.tensor(GOLD)).loss
    parts = [
        model(
            Tokens(tokens.ids[rows], tokens.valid[rows], characters=tokens.characters[rows]), torch.tensor(GOLD[rows])
        )
        for rows in (slice(0, 2), slice(2, 5))
    ]
    torch.testing.assert_close(whole, parts[0].loss + parts[1].loss)
