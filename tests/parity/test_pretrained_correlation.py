"""Correlation attention of pretrained encoders (Transformer-F, Eq. 1–5) against the NumPy reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from epigram.nn.encoders.pretrained import PretrainedConfig, PretrainedEncoder
from epigram.nn.layers.types import DataSpec
from epigram.nn.transformers_adapter import FAMILIES as ATTENTIONS
from epigram.nn.transformers_adapter import QUERY_KEY
from tests.parity.reference import transformer_f as paper
from tests.parity.reference.batches import assert_rows, padded_ids, pair, scattered
from tests.parity.reference.common import Array, gelu, layer_norm, linear
from tests.parity.reference.dropout import captured, of_text
from tests.support import families

OUTPUTS = {"albert": "dense", "distilbert": "out_lin"}  # in the attention's own class; in others, in its parent
RATE, WIDTH, VOCABULARY, LAYERS = 0.25, 8, 13, 2
IDS = [[3, 4, 5, 3, 9], [7], [11, 2, 2, 8, 6, 5, 1, 10, 4, 3, 7, 12], [12, 12, 6]]
POS = np.where(np.arange(families.VOCABULARY) % 3 == 0, 0.5, 1.0)  # part-of-speech weight of each token id
BERT = {
    "model_type": "bert", "vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
    "num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 16, "pad_token_id": 0,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": RATE,
}  # fmt: skip
SETTINGS: list[dict[str, Any]] = [
    {},
    {"row_norm": False, "temperature": 0.2},
    {"pos_weight": "after", "temperature": 0.2},
    {"pos_weight": "inside", "row_norm": False},
    {"pos_weight": "log", "learn_temperature": True, "temperature": 4.0},
]


def bert(**settings: Any) -> PretrainedEncoder:
    """Return an encoder in float64 with random weights and the project's own BERT."""
    context = DataSpec(
        vocabulary=VOCABULARY, classes=2, max_length=16, pos_weight=torch.from_numpy(POS[:VOCABULARY]).float()
    )
    encoder: Any = PretrainedConfig(backbone=BERT, attention="correlation", **settings).build(context)
    return scattered(encoder)


def spread(part: Any, x: Array, ids: list[int], kept: Array | None) -> Array:
    """Return the attention weights (L, L) of the layer `part` for `x` (L, D), times the dropout mask `kept`."""
    weight = np.ones(len(ids)) if part.placement == "none" else POS[ids]
    placement = "after" if part.placement == "none" else part.placement
    correlation = part.correlation
    weights = paper.attention(x, weight, placement, correlation.row_norm, correlation.temperature.item())
    return weights if kept is None else weights * kept[0]


def states(backbone: Any, ids: list[int], kept: list[Array] | None) -> list[Array]:
    """Return the states (L, D) of the embeddings and of every layer of a BERT (Devlin et al. 2019)."""
    own = backbone.embeddings
    tables = [own.word_embeddings, own.position_embeddings, own.token_type_embeddings]
    words, positions, segments = (table.weight.detach().numpy() for table in tables)
    found = [layer_norm(words[ids] + positions[: len(ids)] + segments[0], *pair(own.LayerNorm), 1e-12)]
    for number, layer in enumerate(backbone.encoder["layer"]):
        x, part, out = found[-1], layer.attention["self"], layer.attention["output"]
        context = spread(part, x, ids, None if kept is None else kept[number]) @ linear(x, *pair(part.value))
        x = layer_norm(x + linear(context, *pair(out.dense)), *pair(out.LayerNorm), 1e-12)
        hidden = gelu(linear(x, *pair(layer.intermediate["dense"])))
        found.append(layer_norm(x + linear(hidden, *pair(layer.output.dense)), *pair(layer.output.LayerNorm), 1e-12))
    return found


@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_eq1_to_5_in_every_layer_of_a_bert(settings: dict[str, Any], training: bool) -> None:
    encoder = bert(**settings).train(training)
    with captured() as masks:
        encoded = encoder(padded_ids(IDS, pad_id=5))
    assert len(masks) == (LAYERS if training else 0)
    rows = []
    for row, ids in enumerate(IDS):
        kept = [of_text(mask, row, len(ids)) for mask in masks] if training else None
        rows.append(states(encoder.backbone, ids, kept))
    for layer, got in enumerate(encoded.states):
        assert_rows(got, [row[layer] for row in rows], 1e-9)


def records(backbone: Any) -> list[dict[str, Any]]:
    """Record the input x and the context of every attention that `backbone` computes, in order."""
    found: list[dict[str, Any]] = []
    for name, part in backbone.named_modules():
        if type(part).__name__ != ATTENTIONS[backbone.config.model_type]:
            continue
        parent = backbone.get_submodule(name.rpartition(".")[0])
        out = (
            getattr(part, OUTPUTS[family]) if (family := backbone.config.model_type) in OUTPUTS else parent.output.dense
        )

        def before(part: nn.Module, args: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
            found.append({"part": part, "x": args[0] if args else named["hidden_states"]})

        def after(_: nn.Module, args: tuple[Tensor, ...]) -> None:
            found[-1]["context"] = args[0]

        part.register_forward_pre_hook(before, with_kwargs=True)
        out.register_forward_pre_hook(after)
    return found


@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize("placement", ["none", "after"])
@pytest.mark.parametrize("family", QUERY_KEY)
def test_eq1_to_5_in_every_family(family: str, placement: Any, training: bool, tmp_path: Path) -> None:
    sizes = {**families.FAMILIES[family], "attention_probs_dropout_prob": RATE, "attention_dropout": RATE}
    folder = families.checkpoint(family, tmp_path, sizes)
    settings = PretrainedConfig(attention="correlation", pos_weight=placement, temperature=0.2)
    context = families.context(checkpoint=str(folder), pos_weight=torch.from_numpy(POS).float())
    encoder: Any = settings.build(context)
    tokens, found = families.texts(), records(encoder.double().train(training).backbone)
    with captured() as masks, torch.no_grad():
        encoder(tokens)
    assert len(found) == families.DEPTH and len(masks) == (families.DEPTH if training else 0)
    for number, each in enumerate(found):
        value = each["part"].v_lin if family == "distilbert" else each["part"].value
        wanted = []
        for row, valid in enumerate(tokens.valid):
            ids, x = tokens.ids[row][valid].tolist(), each["x"][row][valid].numpy()
            kept = of_text(masks[number], row, len(ids)) if training else None
            wanted.append(spread(each["part"], x, ids, kept) @ linear(x, *pair(value)))
        assert_rows(each["context"], wanted, 1e-9)
