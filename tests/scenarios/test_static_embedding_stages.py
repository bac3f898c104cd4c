"""Systems on static token vectors through all interfaces: stages, prediction, a saved and an exported model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import epigram
from epigram.core.files import read_json
from epigram.inference.export import export
from epigram.inference.predictor import Predictor
from epigram.models.serialization import load
from epigram.nn.layers.types import Tokens
from epigram.text.encoded_dataset import View
from tests.support.bad_input import Workshop
from tests.support.certain import FILLERS, LABELS, WORD, run_systems, run_to_train, without_spans
from tests.support.static_model import encoding, write_model

NAMES = ["embedding_linear", "hybrid_linear", "bert"]
TEXTS = [f"today {WORD[label]} again" for label in LABELS]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Run all stages on a corpus in which one word decides the label, with a checkpoint in data/local."""
    shop = Workshop(tmp_path_factory.mktemp("stages"))
    tensors = write_model(shop.root / "data/local/static", [*WORD.values(), *FILLERS], weighted=True)
    np.savez(shop.root / "tensors", **tensors)  # type: ignore[arg-type]
    systems: dict[str, Any] = {name: {"view": "token"} for name in NAMES}
    systems["bert"]["train"] = {"epochs": 12, "learning_rate": 0.1, "batch_size": 16}
    shop.params(systems=systems, views={"token": {"tokenizer": "wordpiece", "checkpoint": "data/local/static"}})
    without_spans(shop)
    run_to_train(shop)
    run_systems(shop, NAMES)
    return shop


def folder_of(shop: Workshop, name: str) -> Path:
    return shop.root / f"data/pruned/{name}/seed-0"


def test_texts_have_no_special_tokens(shop: Workshop) -> None:
    view = View.load(shop.root / "data/encoded/token")
    assert (view.prefix_ids, view.suffix_ids) == ([], [])


@pytest.mark.parametrize("name", NAMES)
def test_every_system_learns_the_word(shop: Workshop, name: str) -> None:
    assert read_json(shop.root / f"data/evaluated/{name}/metrics.json")["test_score"]["value"] > 0.95
    found = Predictor(folder_of(shop, name)).predict(TEXTS)
    assert [each.labels for each in found] == [[label] for label in LABELS]


def test_a_frozen_encoder_has_the_vectors_of_the_checkpoint(shop: Workshop) -> None:
    model = load(folder_of(shop, "embedding_linear")).model
    ids = View.load(shop.root / "data/encoded/token").split("test").ids[0].values.tolist()
    with torch.no_grad():
        found = model.encoder(Tokens(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))).last[0, 0]
    wanted = encoding(dict(np.load(shop.root / "tensors.npz")), ids, normalize=True)
    np.testing.assert_allclose(found.double().numpy(), wanted, atol=3e-7)


@pytest.mark.parametrize("name", NAMES)
def test_an_exported_model_has_the_same_probabilities(shop: Workshop, name: str, tmp_path: Path) -> None:
    export(folder_of(shop, name), tmp_path / "exported")
    one, other = (epigram.load(folder) for folder in (folder_of(shop, name), tmp_path / "exported"))
    texts = [*TEXTS, "unheard 好 of", "", "coin " * 60]
    np.testing.assert_allclose(one.probabilities(texts), other.probabilities(texts), atol=0.01)
