"""Systems on a Universal Sentence Encoder through all interfaces: stages, prediction, a saved and an exported model."""

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
from epigram.text.encoded_dataset import View
from tests.support.bad_input import Workshop
from tests.support.certain import (
    FILLERS,
    LABELS,
    WORD,
    run_systems,
    run_to_train,
    without_spans,
)
from tests.support.sentence_encoder import encoding, write_checkpoint

NAMES = ["embedding_linear", "hybrid_linear", "bert"]
TEXTS = [f"today {WORD[label]} again" for label in LABELS]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Run all stages on a corpus in which one word decides the label, with a checkpoint in data/local."""
    shop = Workshop(tmp_path_factory.mktemp("stages"))
    weights = write_checkpoint(shop.root / "data/local/use", [*WORD.values(), *FILLERS])
    np.savez(shop.root / "weights", **weights)  # type: ignore[arg-type]
    systems: dict[str, Any] = {name: {"view": "token"} for name in NAMES}
    systems["bert"]["train"] = {"epochs": 12, "learning_rate": 1e-3, "batch_size": 16}
    shop.params(systems=systems, views={"token": {"tokenizer": "wordpiece", "checkpoint": "data/local/use"}})
    without_spans(shop)
    run_to_train(shop)
    run_systems(shop, NAMES)
    return shop


def folder_of(shop: Workshop, name: str) -> Path:
    return shop.root / f"data/pruned/{name}/seed-0"


def test_texts_are_between_the_marks_of_a_sentence(shop: Workshop) -> None:
    view = View.load(shop.root / "data/encoded/token")
    assert (view.prefix_ids, view.suffix_ids, view.mask_id) == ([1], [2], None)


@pytest.mark.parametrize("name", NAMES)
def test_every_system_learns_the_word(shop: Workshop, name: str) -> None:
    assert read_json(shop.root / f"data/evaluated/{name}/metrics.json")["test_score"]["value"] > 0.95
    found = Predictor(folder_of(shop, name)).predict(TEXTS)
    assert [each.labels for each in found] == [[label] for label in LABELS]


def test_a_frozen_encoder_has_the_weights_of_the_checkpoint(shop: Workshop) -> None:
    weights = dict(np.load(shop.root / "weights.npz"))
    model = load(folder_of(shop, "embedding_linear")).model
    view = View.load(shop.root / "data/encoded/token")
    ids = [1, *view.split("test").ids[0].values.tolist(), 2]
    from epigram.nn.layers.types import Tokens

    with torch.no_grad():
        found = model.encoder(Tokens(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))).last[0, 0]
    np.testing.assert_allclose(found.double().numpy(), encoding(weights, ids), atol=5e-7)


def test_fine_tuning_changes_the_encoder_but_not_the_table(shop: Workshop) -> None:
    frozen, tuned = (load(folder_of(shop, name)).model.encoder for name in ("embedding_linear", "bert"))
    assert torch.equal(frozen.table.codes, tuned.table.codes)
    assert not torch.equal(frozen.combine.weight, tuned.combine.weight)


@pytest.mark.parametrize("name", NAMES)
def test_an_exported_model_has_the_same_probabilities(shop: Workshop, name: str, tmp_path: Path) -> None:
    export(folder_of(shop, name), tmp_path / "exported")
    one, other = (epigram.load(folder) for folder in (folder_of(shop, name), tmp_path / "exported"))
    texts = [*TEXTS, "unheard 好 of", "", "coin " * 60]
    np.testing.assert_allclose(
        one.probabilities(texts), other.probabilities(texts), atol=0.02 if name == "hybrid_linear" else 0.01
    )
