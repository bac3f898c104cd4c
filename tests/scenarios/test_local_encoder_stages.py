"""Systems on an encoder of whole texts through all interfaces: stages, prediction, a saved and an exported model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import epigram
from epigram.core.files import read_json
from epigram.inference.onnx.export import export
from epigram.inference.predictors.predictor import Predictor
from epigram.models.serialization import load
from epigram.nn.layers.types import Tokens
from epigram.text.dataset.encoded_dataset import View
from tests.support import sentence_encoder, static_model
from tests.support.bad_input import Workshop
from tests.support.certain import FILLERS, LABELS, WORD, run_systems, run_to_train, without_spans

NAMES = ["embedding_linear", "hybrid_linear", "bert"]
TEXTS = [f"today {WORD[label]} again" for label in LABELS]
WORDS = [*WORD.values(), *FILLERS]
CHECKPOINT = "data/local/encoder"


def finished(shop: Workshop, given: dict[str, NDArray[Any]], rate: float) -> Workshop:
    """Run all stages on a corpus in which one word decides the label, with the checkpoint, whose arrays are `given`."""
    np.savez(shop.root / "given", **given)  # type: ignore[arg-type]
    systems: dict[str, Any] = {name: {"view": "token"} for name in NAMES}
    systems["bert"]["train"] = {"epochs": 12, "learning_rate": rate, "batch_size": 16}
    shop.params(systems=systems, views={"token": {"tokenizer": "wordpiece", "checkpoint": CHECKPOINT}})
    without_spans(shop)
    run_to_train(shop)
    run_systems(shop, NAMES)
    return shop


@pytest.fixture(scope="module")
def sentence(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Return the stages' results on a Universal Sentence Encoder."""
    shop = Workshop(tmp_path_factory.mktemp("sentence"))
    return finished(shop, sentence_encoder.write_checkpoint(shop.root / CHECKPOINT, WORDS), 1e-3)


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Return the stages' results on static token vectors."""
    shop = Workshop(tmp_path_factory.mktemp("static"))
    return finished(shop, static_model.write_model(shop.root / CHECKPOINT, WORDS, weighted=True), 0.1)


@pytest.fixture(params=["sentence", "static"])
def shop(request: pytest.FixtureRequest) -> Workshop:
    found: Workshop = request.getfixturevalue(request.param)
    return found


def folder_of(shop: Workshop, name: str) -> Path:
    return shop.root / f"data/pruned/{name}/seed-0"


def view_of(shop: Workshop) -> View:
    return View.load(shop.root / "data/encoded/token")


def encoding_of(shop: Workshop, ids: list[int]) -> NDArray[np.float64]:
    """Return the state (D,) of a text by the saved model of the frozen encoder."""
    model = load(folder_of(shop, "embedding_linear")).model
    with torch.no_grad():
        found = model.encoder(Tokens(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))).last[0, 0]
    encoding: NDArray[np.float64] = found.double().numpy()
    return encoding


def test_a_sentence_encoder_reads_texts_between_the_marks_of_a_sentence(sentence: Workshop) -> None:
    view = view_of(sentence)
    assert (view.prefix_ids, view.suffix_ids, view.mask_id) == ([1], [2], None)


def test_static_vectors_read_texts_without_special_tokens(static: Workshop) -> None:
    view = view_of(static)
    assert (view.prefix_ids, view.suffix_ids) == ([], [])


@pytest.mark.parametrize("name", NAMES)
def test_every_system_learns_the_word(shop: Workshop, name: str) -> None:
    assert read_json(shop.root / f"data/evaluated/{name}/metrics.json")["test_score"]["value"] > 0.95
    found = Predictor(folder_of(shop, name)).predict(TEXTS)
    assert [each.labels for each in found] == [[label] for label in LABELS]


def test_a_frozen_sentence_encoder_has_the_weights_of_the_checkpoint(sentence: Workshop) -> None:
    ids = [1, *view_of(sentence).split("test").ids[0].values.tolist(), 2]
    wanted = sentence_encoder.encoding(dict(np.load(sentence.root / "given.npz")), ids)
    np.testing.assert_allclose(encoding_of(sentence, ids), wanted, atol=5e-7)


def test_frozen_static_vectors_are_those_of_the_checkpoint(static: Workshop) -> None:
    ids = view_of(static).split("test").ids[0].values.tolist()
    wanted = static_model.encoding(dict(np.load(static.root / "given.npz")), ids, normalize=True)
    np.testing.assert_allclose(encoding_of(static, ids), wanted, atol=3e-7)


def test_fine_tuning_changes_the_sentence_encoder_but_not_its_table(sentence: Workshop) -> None:
    frozen, tuned = (load(folder_of(sentence, name)).model.encoder for name in ("embedding_linear", "bert"))
    assert torch.equal(frozen.table.codes, tuned.table.codes)
    assert not torch.equal(frozen.combine.weight, tuned.combine.weight)


@pytest.mark.parametrize(
    ("encoder", "name", "allowed"),
    [
        *(("static", name, 0.01) for name in NAMES),
        ("sentence", "embedding_linear", 0.01),
        ("sentence", "hybrid_linear", 0.02),
        ("sentence", "bert", 0.01),
    ],
)
def test_an_exported_model_has_the_same_probabilities(
    encoder: str, name: str, allowed: float, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = folder_of(request.getfixturevalue(encoder), name)
    export(folder, tmp_path / "exported")
    one, other = (epigram.load(each) for each in (folder, tmp_path / "exported"))
    texts = [*TEXTS, "unheard 好 of", "", "coin " * 60]
    np.testing.assert_allclose(one.probabilities(texts), other.probabilities(texts), atol=allowed)
