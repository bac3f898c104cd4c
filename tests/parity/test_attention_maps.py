"""Attention maps of all five methods against NumPy, read from the saved model of a small system.

The input of every attention layer is the state before it, which the tests of each method compare with NumPy as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import epigram
from epigram.core.errors import ParameterError
from epigram.inference.attention import TextAttention, maps_of
from epigram.inference.predictors.predictor import Predictor
from epigram.models.serialization import load
from epigram.nn.layers.types import Tokens
from tests.parity.readings import mhal as mhal_readings
from tests.parity.readings import mhal_encoder
from tests.parity.readings.cnle import bilstm_reading
from tests.parity.readings.cnle import heads_of as co_attention_heads
from tests.parity.reference import head_to_head as hth_paper
from tests.parity.reference import mhal as mhal_paper
from tests.parity.reference import transformer_f as paper
from tests.parity.reference.attention import scores
from tests.parity.reference.batches import pair
from tests.parity.reference.common import Array, linear, softmax
from tests.parity.reference.weights import array
from tests.support import families
from tests.support.saved_systems import saved

TEXT = "w20 w31 nothing w45 w20"
IDS = [20, 31, 1, 45, 20]
POS = np.where(np.arange(60) % 3 == 0, 0.5, 1.0)  # of small_systems
CLOSE = {"atol": 2e-5, "rtol": 1e-4}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    names = ("transformer_hth", "transformer_f", "cnle", "mhal_joint", "dmsp", "bert_hth_pta", "textcnn", "tfidf_svm")
    return {name: saved(name, tmp_path_factory.mktemp(name)) for name in names}


def read(folder: Path) -> tuple[Any, TextAttention]:
    """Return the model in float64 and the maps of TEXT, which stands between other texts."""
    maps = epigram.attention_maps(folder, ["w7 w8 w9 w10 w11 w12 w13 w14", TEXT, "w40"])
    return load(folder).model.double(), maps[1]


def before(model: Any, ids: list[int]) -> list[Array]:
    """Return the states before each layer."""
    tokens = Tokens(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))
    return [array(state)[0] for state in model.encoder(tokens).states[:-1]]


def split(x: Array, heads: int) -> list[Array]:
    return np.split(x, heads, axis=1)


def gated(q: Array, k: Array, part: Any, heads: int) -> tuple[list[Array], Array]:
    """Return the rescaled scores of each head, and the factors."""
    raw = [scores(*each) for each in zip(split(q, heads), split(k, heads), strict=True)]
    strength = None if part.strength is None else part.strength.item()
    factors = hth_paper.factors(hth_paper.squeezed(raw), pair(part.first), pair(part.second), strength)
    return [f * u for f, u in zip(factors, raw, strict=True)], factors


def test_head_to_head_attention(folders: dict[str, Path]) -> None:
    model, maps = read(folders["transformer_hth"])
    assert maps.attention is not None and maps.head_factors is not None
    assert maps.attention.shape == (3, 4, 5, 5) and maps.head_factors.shape == (3, 4)
    for layer, (block, x) in enumerate(zip(model.encoder.blocks, before(model, IDS), strict=True)):
        q, k, _ = np.split(linear(x, *pair(block.attention.qkv)), 3, axis=1)
        rescaled, factors = gated(q, k, block.attention.head_to_head, 4)
        np.testing.assert_allclose(maps.head_factors[layer], factors, **CLOSE)
        np.testing.assert_allclose(maps.attention[layer], softmax(np.stack(rescaled)), **CLOSE)
    assert maps.layer_votes is None and maps.text_to_labels is None and maps.label_shares is None


def test_correlation_attention_with_part_of_speech_weights(folders: dict[str, Path]) -> None:
    model, maps = read(folders["transformer_f"])
    assert maps.attention is not None and maps.head_factors is None
    assert maps.tokens == ["w20", "w31", "nothing", "w45", "w20"]
    for layer, (block, x) in enumerate(zip(model.encoder.blocks, before(model, IDS), strict=True)):
        temperature = block.attention.temperature.item()
        wanted = paper.attention(x, POS[IDS], "after", block.attention.row_norm, temperature)
        np.testing.assert_allclose(maps.attention[layer, 0], wanted, **CLOSE)
    assert maps.attention.sum(-1).max() < 1, "w45 has the weight 0.5"


def test_co_attention_in_both_directions(folders: dict[str, Path]) -> None:
    model, maps = read(folders["cnle"])
    assert maps.text_to_labels is not None and maps.labels_to_text is not None
    assert maps.text_to_labels.shape == (4, 5, 4) and maps.labels_to_text.shape == (4, 4, 5)
    assert maps.label_rows == ["a", "b", "c", "<eos>"] and maps.labels == ["a", "b", "c"]
    head, encoder = model.head, model.encoder
    words = linear(array(encoder.embedding.token.weight)[IDS], *pair(encoder.project))
    x, _, _ = bilstm_reading(encoder.bilstm, words)
    labels, _, _ = bilstm_reading(encoder.bilstm, linear(array(head.embedding.weight), *pair(head.project)))
    for got, fusion, one, other in (
        (maps.text_to_labels, head.co_attention.text, x, labels),
        (maps.labels_to_text, head.co_attention.labels, labels, x),
    ):
        heads = co_attention_heads(fusion)
        wanted = [softmax(scores(one @ q, other @ k)) for q, k in zip(heads.query, heads.key, strict=True)]
        np.testing.assert_allclose(got, np.stack(wanted), **CLOSE)


def test_evidence_of_the_label_heads(folders: dict[str, Path]) -> None:
    model, maps = read(folders["mhal_joint"])
    assert maps.label_probabilities is not None and maps.label_shares is not None
    assert maps.token_labels == ["O", "a", "b", "c"] and maps.label_shares.shape == (5, 4)
    texts = Predictor(folders["mhal_joint"], precision="fp32").batches([TEXT]).gather(np.zeros(1, np.int64))
    assert texts.characters is not None
    spellings = [[character for character in row if character] or [0] for row in texts.characters[0].tolist()]
    states = mhal_encoder.states_reading(model.encoder, IDS, spellings)
    heads = mhal_readings.heads_of(model.head.labeler)
    a = mhal_paper.evidence(mhal_paper.dense(states, heads.join), heads)
    np.testing.assert_allclose(maps.label_probabilities, softmax(a), **CLOSE)
    np.testing.assert_allclose(maps.label_shares, mhal_paper.shares(a), **CLOSE)


def test_votes_of_the_layers(folders: dict[str, Path]) -> None:
    model, maps = read(folders["dmsp"])
    assert maps.layer_weights is not None and maps.layer_votes is not None and maps.attention is None
    tokens = Tokens(torch.tensor([IDS]), torch.ones(1, 5, dtype=torch.bool))
    states = [array(state)[0] for state in model.encoder(tokens).states[1:]]
    for layer, (x, base) in enumerate(zip(states, model.head.classifiers, strict=True)):
        hidden = np.maximum(linear(x, *pair(base.token)), 0.0).mean(axis=0)
        wanted = array(model.head.beta)[layer] * softmax(linear(hidden, *pair(base.out)))
        np.testing.assert_allclose(maps.layer_votes[layer], wanted, **CLOSE)
    np.testing.assert_array_equal(maps.layer_weights, array(model.head.beta).astype(np.float32))
    predicted = Predictor(folders["dmsp"], precision="fp32").probabilities([TEXT])[0]
    calibrated = maps.layer_votes.sum(0) ** (1 / float(model.temperature))
    np.testing.assert_allclose(calibrated / calibrated.sum(), predicted, **CLOSE)


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("gate", ["residual", "paper"])
@torch.no_grad()
def test_a_checkpoint_with_a_prompt(family: str, gate: str, tmp_path: Path) -> None:
    """Head-to-head attention and part-of-speech weights in a checkpoint; the texts of a batch are read one by one."""
    folder, texts = families.checkpoint(family, tmp_path / family), families.texts(prefix=families.PREFIX)
    weight = torch.where(torch.arange(families.VOCABULARY) % 3 == 0, 0.5, 1.0)
    context = families.context(checkpoint=str(folder), prefix_ids=families.PREFIX, pos_weight=weight)
    head = {"kind": "prompt", "soft": True}
    model: Any = families.recipe_of(head, head_to_head=gate, pos_weight="after").build(context).eval()
    for part in model.modules():
        if getattr(part, "strength", None) is not None:
            part.strength.fill_(0.7)
    length = int(texts.valid[1].sum())
    tokens = Tokens(texts.ids[1:2, :length], texts.valid[1:2, :length])
    maps, states = maps_of(model, tokens), model.encode(tokens).states
    assert maps.attention is not None and maps.head_factors is not None
    layers = [layer.attention.self for layer in model.encoder.blocks]
    for number, (layer, state) in enumerate(zip(layers, states[:-1], strict=True)):
        q, k = (linear(array(state)[0], *pair(part)) for part in (layer.query, layer.key))
        rescaled, factors = gated(q, k, layer.head_to_head, 2)
        wanted = softmax(np.stack(rescaled)) * weight[tokens.ids[0]].numpy()
        np.testing.assert_allclose(maps.head_factors[number], factors, **CLOSE)
        np.testing.assert_allclose(maps.attention[number], wanted, **CLOSE)


@pytest.mark.parametrize("name", ["transformer_hth", "cnle", "mhal_joint", "dmsp"])
def test_maps_do_not_depend_on_other_texts(name: str, folders: dict[str, Path]) -> None:
    [alone] = epigram.attention_maps(folders[name], [TEXT])
    _, among, _ = epigram.attention_maps(folders[name], ["w7 w8 w9 w10 w11 w12 w13 w14", TEXT, "w40"])
    for field, value in vars(alone).items():
        np.testing.assert_array_equal(value, vars(among)[field])


def test_tokens_are_named_as_in_the_text(folders: dict[str, Path]) -> None:
    [maps, empty] = epigram.attention_maps(folders["bert_hth_pta"], ["  w20 strange ", ""])
    assert maps.tokens == ["[CLS]", "w10", "[MASK]", "w11", "[MASK]", "w20", "strange", "[SEP]"]
    assert empty.tokens == ["[CLS]", "w10", "[MASK]", "w11", "[MASK]", "[UNK]", "[SEP]"]
    assert maps.attention is not None and maps.attention.shape == (2, 2, 8, 8)
    assert maps.head_factors is not None and maps.head_factors.shape == (2, 2)
    assert epigram.attention_maps(folders["cnle"], []) == []


def test_a_truncated_text_has_the_tokens_that_the_model_reads(folders: dict[str, Path]) -> None:
    [maps] = epigram.attention_maps(folders["bert_hth_pta"], [" ".join(["w20"] * 60)])
    assert maps.attention is not None and len(maps.tokens) == maps.attention.shape[-1] == 24
    assert maps.tokens[-2:] == ["w20", "[SEP]"]


@pytest.mark.parametrize("name", ["textcnn", "tfidf_svm"])
def test_a_system_without_attention_is_refused(name: str, folders: dict[str, Path]) -> None:
    with pytest.raises(ParameterError, match=f"system {name} has no attention maps; use a model of a system with"):
        epigram.attention_maps(folders[name], [TEXT])


def test_the_maps_leave_the_model_as_it_was(folders: dict[str, Path]) -> None:
    model = load(folders["transformer_hth"]).model
    tokens = Tokens(torch.tensor([IDS]), torch.ones(1, 5, dtype=torch.bool))
    wanted = model(tokens).logits
    maps_of(model, tokens)
    assert torch.equal(model(tokens).logits, wanted)
    assert not any(module._forward_hooks for module in model.modules())
