"""Readings of a model's weights for test_mhal_encoder.py and other tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from epigram.nn.encoders.char_bilstm import CharBiLstmConfig, CharBiLstmEncoder
from epigram.nn.layers.recurrent.char_lstm import CharLstm
from epigram.nn.layers.recurrent.language_model import LanguageModel
from epigram.nn.layers.types import DataSpec, Tokens
from tests.parity.reference import mhal as paper
from tests.parity.reference.batches import padded_ids, pair, scattered
from tests.parity.reference.common import Array
from tests.parity.reference.lstm import Lstm, bilstm
from tests.parity.reference.weights import array, lstm_of
from tests.support.mhal import CHARACTERS, WIDTH

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


def language_model(vocabulary: int, most: int) -> LanguageModel:
    return scattered(LanguageModel(width=WIDTH, hidden=3, vocabulary=vocabulary, max_vocabulary=most))


def cost_reading(model: LanguageModel, states: Array, ids: list[int]) -> float:
    ahead, back = ([pair(guess.hidden), pair(guess.out)] for guess in (model.ahead, model.back))
    return paper.language_model(states, ids, ahead, back, model.other)


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


def character_states(encoder: CharBiLstmEncoder, word: list[int]) -> Array:
    """Return [last forward state; last backward state] of a word's characters, (2h,)."""
    assert encoder.speller is not None
    return bilstm(array(encoder.speller.embedding.weight)[word], *directions(encoder.speller.lstm))[1]


def character_cost(encoder: CharBiLstmEncoder, word: list[int]) -> float:
    assert encoder.speller is not None and encoder.speller.model is not None
    states, _, _ = bilstm(array(encoder.speller.embedding.weight)[word], *directions(encoder.speller.lstm))
    return cost_reading(encoder.speller.model, states, word)
