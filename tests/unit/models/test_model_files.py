"""Tests of a model's folder: every file is in the manifest, and a folder with any other file is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from epigram import hf
from epigram.core.errors import DataError, InputMissingError, TryAgainError
from epigram.core.files import sha256
from epigram.inference.predictors import predictor
from epigram.inference.predictors.predictor import Predictor
from epigram.models import manifest
from epigram.models.serialization import load, save_changed
from tests.support.model_seeds import saved_model, sealed

FILES = ["README.md", "config.json", "history.json", "labels.json", "model.safetensors", "tokenizer.json"]
HISTORY = [{"epoch": 1.0, "dev": 0.5}, {"epoch": 2.0, "dev": 0.75}]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model with a history, shared by all tests; do not change it."""
    folder = tmp_path_factory.mktemp("model") / "model"
    saved_model(folder, HISTORY)
    return folder


@pytest.fixture
def model(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of the model's folder."""
    return Path(shutil.copytree(whole, tmp_path / "model"))


def listed(folder: Path) -> dict[str, str]:
    checksums: dict[str, str] = json.loads((folder / "manifest.json").read_text())["sha256"]
    return checksums


def test_the_manifest_lists_every_file(whole: Path) -> None:
    assert sorted(path.name for path in whole.iterdir()) == sorted([*FILES, "manifest.json"])
    assert listed(whole) == {name: sha256(whole / name) for name in FILES}


def test_a_model_that_is_saved_again_keeps_its_history(whole: Path, tmp_path: Path) -> None:
    saved = load(whole)
    save_changed(tmp_path / "again", saved, saved.model, {"dev_accuracy": 0.5})
    assert json.loads((tmp_path / "again/history.json").read_text()) == HISTORY
    assert sorted(listed(tmp_path / "again")) == FILES
    assert load(tmp_path / "again").labels == ["bad", "good"]


@pytest.mark.parametrize("name", FILES)
def test_a_changed_or_missing_file_is_refused(model: Path, name: str) -> None:
    content = (model / name).read_bytes()
    (model / name).write_bytes(content + b" ")
    with pytest.raises(DataError, match=rf"{name} was changed after the model was saved"):
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
    with pytest.raises(DataError, match=rf"{name} is not listed in manifest\.json; remove it"):
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
    with pytest.raises(DataError, match=r"manifest\.json (does not list the files of a model|lists .*not a file name)"):
        load(model)


READERS: list[Any] = [
    AutoConfig,
    AutoTokenizer,
    AutoModelForSequenceClassification,
    hf.EpigramConfig,
    hf.EpigramTokenizer,
    hf.EpigramForSequenceClassification,
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_the_transformers_library_gets_no_folder_that_was_changed(model: Path, reader: Any) -> None:
    reader.from_pretrained(model)
    (model / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    with pytest.raises(DataError, match=r"tokenizer_config\.json is not listed"):
        reader.from_pretrained(model)
    (model / "tokenizer_config.json").unlink()
    (model / "tokenizer.json").write_text((model / "tokenizer.json").read_text() + " ")
    with pytest.raises(DataError, match=r"tokenizer\.json was changed after the model was saved"):
        reader.from_pretrained(model)


FOREIGN: dict[str, Any] = {
    "attn_implementation": "somebody/kernel",
    "_attn_implementation": "somebody/kernel",
    "_experts_implementation": "somebody/kernel",
    "per_layer_config": {"0": {}},
    "auto_map": {"AutoModelForSequenceClassification": "evil.C"},
}


@pytest.mark.parametrize("key", FOREIGN)
def test_the_transformers_library_sees_only_epigram_s_settings(model: Path, key: str) -> None:
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


def test_files_that_are_exchanged_after_they_were_checked_are_not_used(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new weights are valid and have the right shapes; only the checksum differs."""
    other = model.with_name("other")
    weights = load_file(model / "model.safetensors")
    save_file({name: -tensor for name, tensor in weights.items()}, other)
    verify = manifest.verify

    def then_exchange(folder: Path) -> set[str]:
        names = verify(folder)
        other.replace(folder / "model.safetensors")
        return names

    monkeypatch.setattr(manifest, "verify", then_exchange)
    with pytest.raises(TryAgainError, match="model changed while it was read; try again"):
        load(model)


def test_a_link_that_moves_to_another_model_gives_no_mixture(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    champion, second = tmp_path / "champion", shutil.copytree(model, tmp_path / "second")
    champion.symlink_to(model)

    def then_promote(folder: Path, *rest: Any) -> Any:
        saved = load(folder, *rest)
        champion.unlink()
        champion.symlink_to(second)
        return saved

    monkeypatch.setattr(predictor, "load", then_promote)
    with pytest.raises(TryAgainError, match="champion changed while it was read"):
        Predictor(champion)


def test_a_name_that_no_system_can_look_for_is_missing(model: Path) -> None:
    manifest_json = json.loads((model / "manifest.json").read_text())
    for name in ("x" * 5_000, ".."):
        changed = manifest_json | {"sha256": manifest_json["sha256"] | {name: "0" * 64}}
        (model / "manifest.json").write_text(json.dumps(changed))
        with pytest.raises(InputMissingError, match="is missing; restore the model's folder"):
            load(model)


def test_settings_of_many_gigabytes_are_refused_unread(model: Path) -> None:
    """The sparse file takes no disk space."""
    with (model / "manifest.json").open("r+b") as file:
        file.truncate(1 << 36)
    with pytest.raises(DataError, match=r"manifest\.json is larger than 256 MB"):
        load(model)


def test_weights_of_a_kind_that_no_model_has_are_refused(model: Path) -> None:
    weights = load_file(model / "model.safetensors")
    save_file({name: tensor.to(torch.float8_e4m3fn) for name, tensor in weights.items()}, model / "model.safetensors")
    sealed(model)
    with pytest.raises(DataError, match=r"has weights of the unsupported type torch\.float8_e4m3fn"):
        load(model)
