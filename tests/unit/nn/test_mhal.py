"""Tests of MHAL and the tagger: training regimes, refusals, and predictions that depend only on the text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.errors import ParameterError
from epigram.models.recipe import Recipe
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.recipes.registry import RECIPES
from epigram.training.distributed import parallel

CONTEXT = DataSpec(
    vocabulary=40,
    classes=3,
    max_length=16,
    labels=("N", "O", "P"),
    token_labels=("O", "N", "P"),
    plain_class=1,
    characters=12,
)
SMALL = {"embedding": 12, "width": 10, "character_embedding": 6, "character_width": 5, "spelling": 6}
REGIMES = [name for name in RECIPES if name.startswith("mhal_")]


def batch(count: int = 24, seed: int = 0) -> tuple[Tokens, torch.Tensor]:
    """Return texts of class N, O or P; a word id from 20 on has the label N or P and sets the class of its text."""
    random = np.random.default_rng(seed)
    lengths, kinds = random.integers(1, 12, count), np.arange(count) % 3
    ids = random.integers(2, 20, (count, 12))
    for row, kind in enumerate(kinds):
        if kind != 1:
            ids[row, random.integers(lengths[row])] = 20 + 10 * (kind // 2) + random.integers(10)
    valid = np.arange(12) < lengths[:, None]
    labels = np.where(valid, np.where(ids < 20, 0, np.where(ids < 30, 1, 2)), -1)
    characters = np.stack([ids % 10 + 2, np.where(ids % 3 == 0, 0, ids // 10 + 2)], -1) * valid[..., None]
    made = (torch.from_numpy(array) for array in (np.where(valid, ids, 0), valid, characters, labels))
    ids_, valid_, characters_, labels_ = made
    return Tokens(ids_, valid_, characters=characters_, labels=labels_), torch.from_numpy(kinds)


def build(recipe: Recipe, context: DataSpec = CONTEXT, **head: Any) -> Any:
    torch.manual_seed(0)
    small = SMALL if recipe.encoder["kind"] == "char_bilstm" else {"width": 16}
    return recipe.changed(encoder=small, head=head, train={}).build(context, "systems.x")


def fit(model: Any, tokens: Tokens, labels: torch.Tensor, steps: int = 60) -> Any:
    optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        model(tokens, labels).loss.backward()
        optimizer.step()
    return model.eval()


def shares(model: Any, tokens: Tokens, labels: torch.Tensor) -> tuple[float, float]:
    """Return the accuracy of texts and of tokens."""
    with torch.inference_mode():
        said = model(tokens)
    known = tokens.labels >= 0
    right = said.tokens.argmax(-1)[known] == tokens.labels[known]
    return float((said.logits.argmax(1) == labels).double().mean()), float(right.double().mean())


@pytest.mark.parametrize("name", ["mhal_joint", "bilstm_tagger"])
def test_texts_and_tokens_are_learnt_together(name: str) -> None:
    tokens, labels = batch()
    assert min(shares(fit(build(RECIPES[name]), tokens, labels), tokens, labels)) > 0.95


def test_texts_alone_teach_texts_and_tokens_alone_teach_tokens() -> None:
    tokens, labels = batch()
    texts, _ = shares(fit(build(RECIPES["mhal_sent"]), tokens, labels), tokens, labels)
    _, words = shares(fit(build(RECIPES["mhal_tok"]), tokens, labels), tokens, labels)
    assert min(texts, words) > 0.95


@pytest.mark.parametrize("name", ["mhal_sent", "mhal_zero"])
def test_a_regime_without_token_labels_never_reads_them(name: str) -> None:
    tokens, labels = batch()
    model = build(RECIPES[name]).eval()
    torch.testing.assert_close(
        model(tokens, labels).loss, model(replace(tokens, labels=None), labels).loss, rtol=0, atol=0
    )


@pytest.mark.parametrize("name", [*REGIMES, "bilstm_tagger"])
def test_an_answer_depends_on_nothing_but_its_text(name: str) -> None:
    model, (tokens, _) = build(RECIPES[name]).eval(), batch()
    with torch.inference_mode():
        together = model(tokens)
        for row in range(0, len(tokens.ids), 5):
            length = int(tokens.valid[row].sum())
            pick = slice(row, row + 1), slice(0, length)
            assert tokens.characters is not None
            alone = model(Tokens(tokens.ids[pick], tokens.valid[pick], characters=tokens.characters[pick]))
            torch.testing.assert_close(alone.logits[0], together.logits[row], atol=2e-6, rtol=0)
            torch.testing.assert_close(alone.tokens[0], together.tokens[row, :length], atol=2e-6, rtol=0)


def test_the_language_models_say_nothing_once_training_is_over() -> None:
    tokens, labels = batch()
    with_model, without = build(RECIPES["mhal_joint"]), build(RECIPES["mhal_joint"])
    without.encoder.word_model = without.encoder.speller.model = None
    without.load_state_dict(with_model.state_dict(), strict=False)
    first, second = (model.eval()(tokens, labels) for model in (with_model, without))
    assert torch.equal(first.logits, second.logits) and torch.equal(first.loss, second.loss)


def test_a_view_that_does_not_spell_is_read_by_words_alone() -> None:
    model, (tokens, labels) = build(RECIPES["mhal_joint"], replace(CONTEXT, characters=0)), batch()
    assert model.encoder.speller is None
    assert min(shares(fit(model, replace(tokens, characters=None), labels), tokens, labels)) > 0.95


def test_the_regimes_weigh_the_losses_as_the_paper_does() -> None:
    table = {
        "mhal_sent": (1, 0, 0, 0, 0),
        "mhal_tok": (0, 1, 0, 0, 0),
        "mhal_sent_tok": (1, 1, 0, 0, 0),
        "mhal_joint": (1, 1, 0.01, 0.1, 0.5),
        "mhal_zero": (1, 0, 0.01, 0.1, 0.5),
    }
    for name, wanted in table.items():
        model = build(RECIPES[name])
        head, encoder = model.head.config, model.encoder.config
        got = head.sentence_weight, head.token_weight, head.attention_weight, encoder.lm_weight, head.query_weight
        assert got == wanted
    assert set(table) == set(REGIMES)


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        (replace(CONTEXT, token_labels=()), "the data have none; use data with more token labels"),
        (replace(CONTEXT, token_labels=("O",)), "the data have 1; use"),
        (replace(CONTEXT, multi=True), "one label per text, and the texts have several"),
        (
            replace(CONTEXT, token_labels=("O", "A", "B", "C", "D")),
            r"have 3 text labels \(N, O, P\) and 5 token labels \(O, A, B, C, D\)",
        ),
        (
            replace(CONTEXT, token_labels=("O", "A", "B")),
            r"have 3 text labels \(N, O, P\) and 3 token labels \(O, A, B\); use head tag",
        ),
    ],
)
def test_labels_that_the_heads_cannot_stand_for_are_refused(context: DataSpec, reason: str) -> None:
    with pytest.raises(ParameterError, match=r"systems\.x: head: attention_labeler .*" + reason):
        build(RECIPES["mhal_joint"], context)


@pytest.mark.parametrize("head", ["attention_labeler", "tagger"])
def test_an_encoder_that_keeps_no_tokens_is_refused(head: str) -> None:
    recipe = replace(RECIPES["mhal_joint"], encoder={"kind": "dpcnn"}, head={"kind": head})
    with pytest.raises(ParameterError, match=f"head: {head} needs an encoder with one state per token"):
        recipe.build(CONTEXT)


def test_a_tagger_without_token_labels_is_refused() -> None:
    with pytest.raises(
        ParameterError, match="head: tagger predicts token labels, but the data have none; use head linear"
    ):
        build(RECIPES["bilstm_tagger"], replace(CONTEXT, token_labels=()))


@pytest.mark.parametrize("kind", ["transformer", "bilstm", "projected_bilstm", "pretrained", "char_bilstm"])
@pytest.mark.parametrize("head", ["attention_labeler", "tagger"])
def test_any_encoder_that_keeps_its_tokens_can_label_them(kind: str, head: str) -> None:
    sizes = {
        "transformer": {"width": 16, "hidden": 16, "depth": 2},
        "bilstm": {"width": 16},
        "projected_bilstm": {"embedding": 8, "width": 16},
        "pretrained": {"small": {"width": 32, "hidden": 32, "depth": 2, "heads": 2}},
        "char_bilstm": SMALL,
    }
    recipe = replace(RECIPES["mhal_joint"], encoder={"kind": kind, **sizes[kind]}, head={"kind": head})
    tokens, labels = batch()
    said = recipe.build(CONTEXT)(tokens, labels)
    assert said.tokens.shape == (*tokens.ids.shape, 3)
    said.loss.backward()


LM = {"kind": "char_bilstm", **SMALL, "dropout": 0.0, "lm_weight": 0.1}
PONDER = {"kind": "universal_transformer", "width": 16, "heads": 2, "depth": 3, "dropout": 0.0, "ponder": 1.0}


@pytest.mark.parametrize("encoder", [LM, PONDER], ids=["language models", "ponder cost"])
@pytest.mark.parametrize(("head", "summed"), [({"kind": "linear", "dropout": 0.0}, False), ({}, True)])
def test_what_an_encoder_costs_counts_once_a_text(encoder: dict[str, Any], head: dict[str, Any], summed: bool) -> None:
    head = head or {"kind": "attention_labeler"}
    torch.manual_seed(0)
    model: Any = replace(RECIPES["mhal_joint"], encoder=encoder, head=head).build(CONTEXT).train()
    tokens, labels = batch()
    tokens = replace(
        tokens, valid=torch.ones_like(tokens.valid), lengths=None
    )  # equal lengths: halves have the same means

    def loss(rows: Any) -> float:
        assert tokens.characters is not None and tokens.labels is not None
        picked = (each[rows] for each in (tokens.ids, tokens.valid, tokens.characters, tokens.labels))
        ids, valid, characters, named = picked
        found: torch.Tensor = model(Tokens(ids, valid, characters=characters, labels=named), labels[rows]).loss
        return float(found.detach())

    rows = np.arange(len(labels))
    whole = loss(rows)
    with torch.no_grad():
        encoded = model.encode(tokens)
        own, cost = float(model.head(encoded, labels).loss), float(encoded.cost)
    assert whole == pytest.approx(own + cost * (24 if summed else 1))
    assert loss(np.tile(rows, 2)) == pytest.approx(whole * (2 if summed else 1), rel=1e-5)
    assert sum(loss(half) * weight for half, weight in parallel.split_batch(rows, model, 2)) == pytest.approx(
        whole, rel=1e-5
    )


def test_a_tagger_learns_from_texts_whose_tokens_are_not_labelled() -> None:
    model, (tokens, labels) = build(RECIPES["bilstm_tagger"]), batch()
    assert tokens.labels is not None
    for hidden in (None, torch.full_like(tokens.labels, -1)):
        assert torch.isfinite(model(replace(tokens, labels=hidden), labels).loss)


def test_hook_fusion_feeds_the_tagger_too() -> None:
    recipe = replace(RECIPES["bilstm_tagger"], encoder={"kind": "bilstm", "width": 16, "depth": 2})
    last, hook = build(recipe).eval(), build(recipe, fusion="hook").eval()
    tokens, _ = batch()
    assert not torch.equal(last(tokens).tokens, hook(tokens).tokens)
    with pytest.raises(ParameterError, match="fusion"):
        build(replace(RECIPES["mhal_joint"], head={"kind": "tagger", "fusion": "hook"}))
