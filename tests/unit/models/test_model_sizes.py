"""Tests that the sizes in a saved model's settings are compared with its weights before memory is allocated."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from epigram.core.errors import DataError, ParameterError
from epigram.core.files import read_json, write_json
from epigram.models import sizes
from epigram.models.linear_svm import LinearSvmConfig
from epigram.models.recipe import Recipe
from epigram.models.serialization import load, save
from epigram.models.sizes import check_numbers, check_sizes
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import DataSpec
from epigram.text.tokens.tokenizers import character_tokenizer
from tests.support.model_seeds import WORDS, sealed

SMALL = {"width": 4, "depth": 1, "heads": 1, "hidden": 4}


def saved(folder: Path, encoder: dict[str, Any] | None) -> Path:
    """Save a classifier with this encoder, or a linear SVM."""
    character_tokenizer(WORDS).save(str(folder / "tokenizer.json"))
    recipe = Recipe(name="toy", about="", paper="", view="", encoder=encoder or {})
    recipe = recipe if encoder else recipe.changed(model={"kind": "linear_svm"})
    frame = TextTemplate(
        language="zh", max_length=12, prefix_ids=[], suffix_ids=[], pad_id=0, unk_id=1, mask_id=4, vocabulary=len(WORDS)
    )
    model = recipe.build(DataSpec(vocabulary=len(WORDS), classes=2, max_length=12))
    tokenizer = folder / "tokenizer.json"
    save(folder / "model", model, recipe=recipe, frame=frame, labels=["a", "b"], tokenizer=tokenizer, facts={})
    return folder / "model"


def changed(folder: Path, path: str, value: Any) -> None:
    """Set a value of config.json and update the checksums."""
    config = read_json(folder / "config.json")
    *parts, last = path.split(".")
    place = config
    for part in parts:
        place = place[part]
    assert last in place
    place[last] = value
    write_json(folder / "config.json", config)
    sealed(folder)


@pytest.mark.parametrize(
    ("encoder", "path", "value"),
    [
        ({"kind": "transformer", **SMALL}, "parts.encoder.depth", 10**7),
        ({"kind": "transformer", **SMALL}, "parts.encoder.depth", 10**400),
        ({"kind": "transformer", **SMALL}, "parts.encoder.hidden", 10**7),
        ({"kind": "transformer", **SMALL}, "parts.encoder.width", 10**6),
        ({"kind": "transformer", **SMALL, "positions": "sinusoidal"}, "frame.max_length", 10**7),
        ({"kind": "transformer", **SMALL}, "frame.max_length", 10**400),
        ({"kind": "bilstm", "width": 4, "depth": 1}, "frame.max_length", 10**400),
        ({"kind": "bilstm", "width": 4, "depth": 1}, "parts.encoder.depth", 10**7),
        ({"kind": "bilstm", "width": 4, "depth": 1}, "frame.vocabulary", 10**12),
        ({"kind": "pretrained", "family": "bert", "small": SMALL}, "parts.encoder.backbone.num_hidden_layers", 10**7),
        ({"kind": "pretrained", "family": "bert", "small": SMALL}, "parts.encoder.backbone.vocab_size", 10**400),
        (None, "parts.model.orders", [1, 10**12]),
    ],
)
def test_sizes_that_the_weights_do_not_have_are_refused(
    tmp_path: Path, encoder: dict[str, Any] | None, path: str, value: Any
) -> None:
    folder = saved(tmp_path, encoder)
    load(folder)
    changed(folder, path, value)
    start = time.monotonic()
    with pytest.raises(DataError, match=r"cannot be loaded by this version of epigram|at most 1,000 is supported"):
        load(folder)
    assert time.monotonic() - start < 5


def test_the_reason_is_told(tmp_path: Path) -> None:
    folder = saved(tmp_path, {"kind": "transformer", **SMALL})
    changed(folder, "parts.encoder.depth", 10**6)
    with pytest.raises(DataError, match=r"config\.json describes a larger model than its weights"):
        load(folder)
    changed(folder, "parts.encoder.depth", 10**8)
    with pytest.raises(DataError, match="has a size above 10,000,000"):
        load(folder)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow no tensor or element beyond the weights."""
    for name, value in (("MAX_SIZE", 0), ("MAX_EXTRA_TENSORS", 0), ("MAX_COPIES", 1)):
        monkeypatch.setattr(sizes, name, value)


@pytest.mark.usefixtures("exact")
def test_tensors_and_elements_are_counted() -> None:
    """The weights are 3 × 4 and 3: two tensors, 15 elements."""
    weights = nn.Linear(4, 3).state_dict()
    check_sizes(weights, {}, lambda: nn.Linear(4, 3))
    for larger in (lambda: nn.Linear(5, 3), lambda: nn.Linear(4, 4), lambda: nn.PReLU(16)):
        with pytest.raises(ValueError, match="larger model"):
            check_sizes(weights, {}, larger)
    with pytest.raises(ValueError, match="larger model"):
        check_sizes(weights, {}, lambda: nn.ModuleList(nn.PReLU(1) for _ in range(3)))
    with pytest.raises(ValueError, match="larger model"):
        check_sizes(weights, {}, lambda: nn.BatchNorm1d(4, affine=False).register_buffer("table", torch.ones(8)))
    nn.Linear(400, 300)  # outside check_sizes, nothing is counted


def test_the_model_is_built_without_memory() -> None:
    devices = []

    def build() -> nn.Module:
        model = nn.Linear(4, 3)
        devices.append(model.weight.device.type)
        return model

    check_sizes(nn.Linear(4, 3).state_dict(), {}, build)
    assert devices == ["meta"]


@pytest.mark.usefixtures("exact")
def test_models_of_other_threads_are_not_counted() -> None:
    def build() -> nn.Module:
        thread = threading.Thread(target=lambda: others.append(nn.Linear(40, 30)))
        thread.start()
        thread.join()
        return nn.Linear(4, 3)

    others: list[nn.Module] = []
    check_sizes(nn.Linear(4, 3).state_dict(), {}, build)
    assert len(others) == 1


def test_every_number_of_a_config_is_checked() -> None:
    check_numbers(json.loads('{"a": [1, {"b": 10000000}], "c": true, "d": 1e300}'))
    for text in ('{"a": [1, {"b": 10000001}]}', "[-10000001]"):
        with pytest.raises(ValueError, match="has a size above 10,000,000"):
            check_numbers(json.loads(text))


def test_orders_are_checked_without_a_list_of_their_range() -> None:
    context = DataSpec(vocabulary=10, classes=2, max_length=8)
    assert LinearSvmConfig(orders=[2, 3]).build(context).counted.orders == (2, 3)
    for orders in ([1, 10**12], [1, 3], [2, 1], []):
        with pytest.raises((ValueError, ParameterError), match="expected consecutive numbers"):
            LinearSvmConfig(orders=orders).check(context)


def test_no_compiler_is_imported_for_the_sizes() -> None:
    """Importing PyTorch's compiler takes two seconds; initialising weights on the meta device would import it."""
    code = (
        "import sys, torch; from dataclasses import replace;"
        "from tests.support.small_systems import NAMES, context_of, recipe_of;"
        "from epigram.models.sizes import check_sizes; recipes = [recipe_of(name) for name in NAMES];"
        "own = [each for each in recipes if each.by_gradient and each.encoder['kind'] != 'pretrained'];"
        "own += [replace(each, encoder={'kind': 'sentence_encoder'}, head={'kind': 'linear_ngrams', 'buckets': 9})"
        " for each in recipes if each.name == 'hybrid_linear'];"
        "made = [(each, context_of(each)) for each in own];"
        "[check_sizes({'': torch.zeros(10**6)}, {}, lambda: one.build(context)) for one, context in made];"
        "print(len(own)); sys.exit('torch._dynamo' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(found.stdout) > 20


def test_a_table_of_codes_has_no_random_values_for_the_sizes() -> None:
    """Random integers on the meta device would import SymPy, in a fifth of a second."""
    code = (
        "import sys, torch; from epigram.models.sizes import check_sizes;"
        "from epigram.nn.layers.quantized_embedding import QuantizedEmbedding;"
        "check_sizes({'': torch.zeros(10**6)}, {}, lambda: QuantizedEmbedding(40, 8));"
        "sys.exit('sympy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
