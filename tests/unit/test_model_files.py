"""A model's folder: every file is in the manifest, and a folder with any other file is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from pithy import hf
from pithy.errors import DataError, InputMissingError
from pithy.files import sha256
from pithy.inference.predictor import Predictor
from pithy.systems.saved import load, save_again
from tests.fuzz.model_seeds import saved_model, sealed

FILES = ["card.md", "config.json", "history.json", "labels.json", "model.safetensors", "tokenizer.json"]
HISTORY = [{"epoch": 1.0, "dev": 0.5}, {"epoch": 2.0, "dev": 0.75}]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a history, to be left as it is."""
    folder = tmp_path_factory.mktemp("model") / "model"
    saved_model(folder, HISTORY)
    return folder


@pytest.fixture
def model(whole: Path, tmp_path: Path) -> Path:
    """A copy of the model."""
    return Path(shutil.copytree(whole, tmp_path / "model"))


def listed(folder: Path) -> dict[str, str]:
    checksums: dict[str, str] = json.loads((folder / "manifest.json").read_text())["sha256"]
    return checksums


def test_the_manifest_lists_every_file(whole: Path) -> None:
    assert sorted(path.name for path in whole.iterdir()) == sorted([*FILES, "manifest.json"])
    assert listed(whole) == {name: sha256(whole / name) for name in FILES}


def test_a_model_that_is_saved_again_keeps_its_history(whole: Path, tmp_path: Path) -> None:
    saved = load(whole)
    save_again(tmp_path / "again", saved, saved.model, {"dev_accuracy": 0.5})
    assert json.loads((tmp_path / "again/history.json").read_text()) == HISTORY
    assert sorted(listed(tmp_path / "again")) == FILES
    assert load(tmp_path / "again").labels == ["bad", "good"]


@pytest.mark.parametrize("name", FILES)
def test_a_changed_or_missing_file_is_refused(model: Path, name: str) -> None:
    content = (model / name).read_bytes()
    (model / name).write_bytes(content + b" ")
    with pytest.raises(DataError, match=rf"{name} is not the file that the model was saved with"):
        load(model)
    (model / name).unlink()
    with pytest.raises(InputMissingError, match=name):
        load(model)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "modeling_evil.py", ".hidden", "weights.bin", "more"])
def test_a_file_that_the_manifest_does_not_list_is_refused(model: Path, name: str) -> None:
    if name == "more":
        (model / name).mkdir()
    else:
        (model / name).write_text("{}")
    with pytest.raises(DataError, match=rf"{name} is not listed in manifest\.json: remove it"):
        load(model)


@pytest.mark.parametrize("name", ["extra.json", "../outside.json", "/etc/hostname", "."])
def test_a_manifest_that_lists_other_files_is_refused(model: Path, name: str) -> None:
    manifest = json.loads((model / "manifest.json").read_text())
    for path in (model / "extra.json", model / "../outside.json"):
        path.write_text("{}")
    if name != "extra.json":
        (model / "extra.json").unlink()
    manifest["sha256"][name] = sha256(model / "extra.json") if name == "extra.json" else "0" * 64
    (model / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"manifest\.json lists (other files than a model has|.*not a file name)"):
        load(model)


READERS: list[Any] = [
    AutoConfig,
    AutoTokenizer,
    AutoModelForSequenceClassification,
    hf.PithyConfig,
    hf.PithyTokenizer,
    hf.PithyForSequenceClassification,
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_the_transformers_library_gets_no_folder_that_was_changed(model: Path, reader: Any) -> None:
    reader.from_pretrained(model)
    (model / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    with pytest.raises(DataError, match=r"tokenizer_config\.json is not listed"):
        reader.from_pretrained(model)
    (model / "tokenizer_config.json").unlink()
    (model / "tokenizer.json").write_text((model / "tokenizer.json").read_text() + " ")
    with pytest.raises(DataError, match=r"tokenizer\.json is not the file that the model was saved with"):
        reader.from_pretrained(model)


FOREIGN: dict[str, Any] = {
    "attn_implementation": "somebody/kernel",
    "_attn_implementation": "somebody/kernel",
    "_experts_implementation": "somebody/kernel",
    "per_layer_config": {"0": {}},
    "auto_map": {"AutoModelForSequenceClassification": "evil.C"},
}


@pytest.mark.parametrize("key", FOREIGN)
def test_the_transformers_library_sees_only_pithy_s_settings(model: Path, key: str) -> None:
    before = Predictor(model).probabilities(["好"])
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, key: FOREIGN[key]}))
    sealed(model)
    found = AutoModelForSequenceClassification.from_pretrained(model)
    assert found.config._attn_implementation in {None, "eager", "sdpa"}
    assert found.config._experts_implementation in {None, "eager"}
    assert not hasattr(found.config, "auto_map")
    assert found.config.system == "cnn"
    assert (Predictor(model).probabilities(["好"]) == before).all()
