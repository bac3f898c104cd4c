"""MHAL's encoder against NumPy: spellings, words, language models and the whole loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from epigram.models.classifier import NeuralClassifier
from epigram.nn.heads.attention_labeler import AttentionLabelerConfig
from epigram.nn.layers.types import Tokens
from tests.parity.readings.mhal_encoder import (
    IDS,
    SPELLINGS,
    character_cost,
    character_ids,
    character_states,
    cost_reading,
    encoder_of,
    language_model,
    spelled_tokens,
    speller,
    spelling_reading,
    states_reading,
)
from tests.parity.reference import mhal as paper
from tests.parity.reference.batches import assert_rows, padded, padded_ids, pair, texts
from tests.parity.reference.weights import array
from tests.support.mhal import CHARACTERS, GOLD, SAME, WIDTH


@pytest.mark.parametrize("width", [5, 9])
def test_spelling_by_the_last_states(width: int) -> None:
    part = speller()
    got, _, cost = part(character_ids(SPELLINGS, width))
    wanted = np.stack([spelling_reading(part, row) for row in SPELLINGS])
    np.testing.assert_allclose(array(got), wanted, atol=1e-9)
    assert cost is None


def test_a_token_without_characters_is_spelled_by_none() -> None:
    part = speller()
    got = part(character_ids([[], [3]])).vectors
    np.testing.assert_allclose(array(got), np.stack([spelling_reading(part, row) for row in ([0], [3])]), atol=1e-9)
    only = part(character_ids([[]], 1)).vectors
    torch.testing.assert_close(only[0], got[0])


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


@pytest.mark.parametrize("characters", [CHARACTERS, 0], ids=["spelled", "not spelled"])
def test_eq1_2_states_of_words_and_spellings(characters: int) -> None:
    encoder = encoder_of(replace(SAME, characters=characters))
    tokens, spellings = spelled_tokens()
    wanted = [states_reading(encoder, ids, words) for ids, words in zip(IDS, spellings, strict=True)]
    got = encoder(tokens)
    assert_rows(got.last, wanted, 1e-9)
    assert got.cost is None and got.last.shape[-1] == encoder.width == 10


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


@pytest.mark.parametrize("lm_loss", ["mean", "sum"])
@pytest.mark.parametrize("most", [8, 7_500])
def test_the_words_between_two_spellings_are_predicted_from_their_character_states(lm_loss: str, most: int) -> None:
    settings = {"lm_spelling": "words", "lm_loss": lm_loss, "lm_hidden": 3, "lm_vocabulary": most}
    encoder = encoder_of(SAME, lm_weight=0.1, **settings).train()
    assert encoder.word_model is not None and encoder.middle_model is not None and encoder.speller is not None
    assert encoder.speller.model is None
    tokens, spellings = spelled_tokens()
    guess = encoder.middle_model.middle
    words, middle = 0.0, 0.0
    for ids, spelled in zip(IDS, spellings, strict=True):
        words += cost_reading(encoder.word_model, states_reading(encoder, ids, spelled), ids)
        vectors = np.stack([character_states(encoder, word) for word in spelled])
        middle += paper.middle_words(vectors, ids, pair(guess.hidden), pair(guess.out), encoder.middle_model.other)
    wanted = (words + middle) / len(IDS)
    if lm_loss == "mean":
        wanted = (words / sum(map(len, IDS)) / 2 + middle / sum(max(0, len(ids) - 2) for ids in IDS)) / 2
    cost = encoder(tokens).cost
    assert cost is not None
    assert float(cost.detach()) == pytest.approx(0.1 * wanted, rel=1e-6)
    assert encoder.eval()(tokens).cost is None


def test_texts_without_a_word_between_two_others_have_no_loss_of_spellings() -> None:
    encoder = encoder_of(SAME, lm_weight=0.1, lm_spelling="words", lm_hidden=3).train()
    tokens, _ = spelled_tokens()
    assert tokens.characters is not None and encoder.word_model is not None
    short = Tokens(tokens.ids[4:, :2], tokens.valid[4:, :2], characters=tokens.characters[4:, :2])
    cost = encoder(short).cost
    assert cost is not None and torch.isfinite(cost)


def test_the_whole_loss_is_the_heads_and_the_language_models() -> None:
    encoder = encoder_of(SAME, lm_weight=0.1, lm_hidden=3)
    head = AttentionLabelerConfig(hidden=9, attention_weight=0.01, query_weight=0.5).build(SAME, encoder)
    model, (tokens, _) = NeuralClassifier(encoder, head).double().train(), spelled_tokens()
    alone, cost = head(encoder(tokens), torch.tensor(GOLD)).loss, encoder(tokens).cost
    torch.testing.assert_close(model(tokens, torch.tensor(GOLD)).loss, alone + len(IDS) * cost, check_dtype=False)


def test_summed_language_models_make_the_loss_of_a_batch_the_sum_of_its_texts() -> None:
    encoder = encoder_of(SAME, lm_weight=0.1, lm_loss="sum", lm_hidden=3)
    head = AttentionLabelerConfig(hidden=9, attention_weight=0.01).build(SAME, encoder)
    model, (tokens, _) = NeuralClassifier(encoder, head).double().train(), spelled_tokens()
    whole = model(tokens, torch.tensor(GOLD)).loss
    parts = [
        model(
            Tokens(tokens.ids[rows], tokens.valid[rows], characters=tokens.characters[rows]), torch.tensor(GOLD[rows])
        )
        for rows in (slice(0, 2), slice(2, 5))
    ]
    torch.testing.assert_close(whole, parts[0].loss + parts[1].loss)
