"""Tests of a checkpoint's config.json and index: allowed families and attentions, and only files of its own folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import DataError
from epigram.nn.encoders.pretrained import PretrainedConfig
from epigram.nn.pretrained.checkpoint_info import read_checkpoint_info
from epigram.nn.pretrained.config_check import check_config
from tests.support.families import FAMILIES, OTHERS, built, checkpoint, context

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def configured(folder: Path, **changes: Any) -> dict[str, Any]:
    """Change values of config.json in `folder` and return all its values."""
    config = {**json.loads((folder / "config.json").read_text()), **changes}
    (folder / "config.json").write_text(json.dumps(config))
    return config


def in_parts(folder: Path, name: str) -> None:
    """Write an index that maps all weights to the file `name`."""
    from safetensors import safe_open

    with safe_open(folder / WHOLE, framework="pt") as file:
        weights = dict.fromkeys(file.keys(), name)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weights}))


@pytest.mark.parametrize("family", ["bert", "roberta"])  # one of epigram's own encoders, and one of transformers
def test_weights_outside_of_the_folder_are_refused(family: str, tmp_path: Path) -> None:
    folder = checkpoint(family, tmp_path / "checkpoint")
    in_parts(folder, "part.safetensors")
    weights = (folder / WHOLE).rename(folder / "part.safetensors")
    built(folder)
    for name in ("../part.safetensors", str(tmp_path / "part.safetensors"), "sub/part.safetensors"):
        (folder / name).parent.mkdir(exist_ok=True)
        weights = weights.rename(folder / name)
        index = json.loads((folder / INDEX).read_text())
        index["weight_map"] = dict.fromkeys(index["weight_map"], name)
        (folder / INDEX).write_text(json.dumps(index))
        with pytest.raises(DataError, match=r"index\.json lists .*; expected the name of a"):
            built(folder)


@pytest.mark.parametrize("weight_map", [None, [], {"a": 1}, {"a": "weights.bin"}, {"a": ""}])
def test_an_index_without_names_of_safetensors_is_refused(weight_map: Any, tmp_path: Path) -> None:
    folder = checkpoint("bert", tmp_path)
    (folder / WHOLE).unlink()
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(DataError, match=r"index\.json (has no weight_map|lists .*; expected the name)"):
        built(folder)


REFUSED = [
    ({"_attn_implementation": "somebody/kernel"}, "_attn_implementation is 'somebody/kernel'; supported: eager and"),
    ({"attn_implementation": "somebody/kernel@main:flash"}, "attn_implementation is .*; supported: eager and sdpa"),
    ({"_attn_implementation_internal": "a/b"}, "_attn_implementation_internal is 'a/b'"),
    ({"attn_implementation": {"": "a/b"}}, "attn_implementation is .*; supported: eager and sdpa"),
    ({"_experts_implementation": "a/b"}, "_experts_implementation is 'a/b'"),
    ({"per_layer_config": {"0": {"_attn_implementation": "a/b"}}}, "per_layer_config is not supported"),
    ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config is not supported"),
    ({"transformers_weights": "other.safetensors"}, "transformers_weights is not supported"),
    ({"model_type": "timm_wrapper"}, "model_type is 'timm_wrapper'; supported: albert, bert, "),
    ({"model_type": "llama"}, "model_type is 'llama'; supported"),
    ({"model_type": ["bert"]}, r"model_type is \['bert'\]; supported"),
    ({"model_type": "bert\n"}, r"model_type is 'bert\\n'; supported"),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_what_could_fetch_or_run_something_is_refused(
    family: str, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    folder = checkpoint(family, tmp_path)
    values = configured(folder, **changes)
    with pytest.raises(DataError, match=rf"config\.json: {said}"):
        read_checkpoint_info(str(folder))  # before training
    with pytest.raises(DataError, match=rf"config\.json: {said}"):
        built(folder)
    with pytest.raises(DataError, match=rf"config\.json: {said}"):
        PretrainedConfig(backbone=values).build(context())  # from a saved model


def test_another_config_file_is_checked_too(tmp_path: Path) -> None:
    folder = checkpoint("roberta", tmp_path)
    values = configured(folder)
    configured(folder, configuration_files=["config.4.0.0.json"])
    (folder / "config.4.0.0.json").write_text(json.dumps({**values, "_attn_implementation": "a/b"}))
    with pytest.raises(DataError, match="_attn_implementation is 'a/b'"):
        built(folder)


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_every_family_is_still_read(family: str, tmp_path: Path) -> None:
    folder = checkpoint(family, tmp_path, FAMILIES.get(family) or OTHERS[family])
    for implementation in (None, "eager", "sdpa"):
        configured(folder, _attn_implementation=implementation)
        assert read_checkpoint_info(str(folder)) is not None
    configured(folder, _attn_implementation="eager", _attn_implementation_autoset=True)
    assert built(folder)[1].backbone.config.model_type == family


@pytest.mark.parametrize(("key", "most"), [("num_hidden_layers", 1_000), ("n_layer", 1_000), ("hidden_size", 1 << 20)])
def test_sizes_beyond_measure_are_refused_before_anything_is_built(key: str, most: int) -> None:
    check_config({"model_type": "bert", key: most}, "config.json")
    with pytest.raises(DataError, match=rf"config\.json: {key} is .*; at most {most:,} is supported"):
        check_config({"model_type": "bert", key: most + 1}, "config.json")
