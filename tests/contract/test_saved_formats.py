"""Models in each format that an earlier version of epigram has saved load and predict the same.

`saved/format_N.json` describes the model folders that the version with format N wrote, and the probabilities that it
predicted. Weights are not stored: floats are drawn from a seeded generator, in the order of their names, and counts and
keys are listed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import epigram
from epigram.core.errors import DataError
from epigram.core.files import read_json, sha256, write_json

KNOWN = json.loads((Path(__file__).parent / "saved/format_1.json").read_text(encoding="utf-8"))
TEXTS, MODELS = KNOWN["texts"], KNOWN["models"]


def drawn(tensors: dict[str, Any]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        name: np.asarray(each["values"], each["dtype"])
        if "values" in each
        else (0.3 * random.standard_normal(each["shape"])).astype(each["dtype"])
        for name, each in tensors.items()
    }


def written(name: str, folder: Path) -> Path:
    """Write the folder of a known model."""
    known = MODELS[name]
    folder.mkdir(parents=True)
    for file, content in known["files"].items():
        (folder / file).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    for file, text in known["others"].items():
        (folder / file).write_text(text, encoding="utf-8")
    if "tensors" in known:
        save_file(drawn(known["tensors"]), folder / "model.safetensors")
    names = [path.name for path in folder.iterdir()]
    for member, model in known.get("members", {}).items():
        written(model, folder / "members" / member)
        names.append(f"members/{member}/manifest.json")
    write_json(folder / "manifest.json", known["facts"] | {"sha256": {each: sha256(folder / each) for each in names}})
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_format_1_predicts_the_same(name: str, tmp_path: Path) -> None:
    model = epigram.load(str(written(name, tmp_path / "model")))
    found = model.probabilities(TEXTS)
    assert found == pytest.approx(np.array(MODELS[name]["probabilities"]), abs=2e-3)
    if words := MODELS[name].get("words"):
        expected = [each if text else [] for each, text in zip(words, TEXTS, strict=True)]
        assert [[word.label for word in each.words] for each in model.predict(TEXTS)] == expected


def test_an_unknown_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = written("textcnn", tmp_path / "model")
    config = read_json(folder / "config.json") | {"format": 0}
    write_json(folder / "config.json", config)
    manifest = read_json(folder / "manifest.json")
    manifest["sha256"]["config.json"] = sha256(folder / "config.json")
    write_json(folder / "manifest.json", manifest)
    with pytest.raises(DataError, match="does not have format 1 of this version of epigram; train the model again"):
        epigram.load(str(folder))
