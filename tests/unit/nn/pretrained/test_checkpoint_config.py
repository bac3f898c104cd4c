"""A checkpoint's config.json and index: allowed families and attentions, and refusals before anything runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.nn.encoders.pretrained import PretrainedConfig
from epigram.nn.pretrained.checkpoint import check_config
from epigram.nn.pretrained.checkpoint_info import read_checkpoint_info
from epigram.recipes.registry import RECIPES
from tests.support.families import FAMILIES, OTHERS, built, checkpoint, context, recipe_of
from tests.support.hub_server import CHECKPOINT
from tests.support.refusals import checked, pretrained

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


@pytest.mark.parametrize("setting", ["head_to_head", "pos_weight"])
@pytest.mark.parametrize("family", OTHERS)
def test_a_checkpoint_whose_attention_cannot_be_replaced_is_refused_before_it_is_loaded(
    family: str, setting: str, tmp_path: Path
) -> None:
    folder = str(checkpoint(family, tmp_path, OTHERS[family]))
    encoder = pretrained(**{setting: "residual" if setting == "head_to_head" else "log"})
    message = (
        rf"systems\.x: encoder\.{setting} is '\w+', but the attention of {family} cannot be replaced; set it to none"
    )
    with pytest.raises(ParameterError, match=message):
        checked(encoder=encoder, checkpoint=folder)
    with pytest.raises(ParameterError, match=message):
        recipe_of(**encoder).build(context(checkpoint=folder), "systems.x")
    checked(encoder=pretrained(), checkpoint=folder)


def test_a_checkpoint_of_one_head_is_refused_for_head_to_head_attention(tmp_path: Path) -> None:
    folder = str(checkpoint("bert", tmp_path, {**FAMILIES["bert"], "num_attention_heads": 1}))
    with pytest.raises(ParameterError, match=r"encoder\.head_to_head is 'paper', but the attention has one head"):
        checked(encoder=pretrained(head_to_head="paper"), checkpoint=folder)
    checked(encoder=pretrained(), checkpoint=folder)


def test_a_checkpoint_of_another_family_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    folder = str(checkpoint("electra", tmp_path))
    with pytest.raises(
        ParameterError,
        match=r"systems\.x: encoder\.family is 'macbert', but the view's checkpoint '.*' has the model_type electra",
    ):
        checked(recipe="macbert", checkpoint=folder)
    checked(recipe="transformer", checkpoint=folder)  # uses only the checkpoint's tokenizer
    checked(recipe="bert_hth", checkpoint=folder)
    checked(recipe="bert", checkpoint=CHECKPOINT)  # downloaded later


def test_a_head_that_does_not_suit_a_checkpoint_s_width(tmp_path: Path) -> None:
    folder = str(checkpoint("bert", tmp_path, {**FAMILIES["bert"], "hidden_size": 18}))
    with pytest.raises(ParameterError, match=r"a multiple of head\.heads \(4\); the encoder's width is 18"):
        checked(encoder=pretrained(), head={"kind": "label_decoder"}, checkpoint=folder)


@pytest.mark.parametrize(
    ("config", "weights", "kind", "said"),
    [
        (None, True, InputMissingError, "config.json"),
        ("[]", True, DataError, "config.json does not describe an encoder"),
        ("{", True, DataError, "config.json"),
        ('{"model_type": "epigram", "format": 1}', True, DataError, "config.json does not describe an encoder"),
        (
            '{"model_type": "bert", "hidden_size": 16, "num_attention_heads": 2}',
            False,
            InputMissingError,
            "no model.saf",
        ),
    ],
)
def test_a_folder_that_is_no_checkpoint(
    config: str | None, weights: bool, kind: type[Exception], said: str, tmp_path: Path
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    if weights:
        (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(kind, match=said):
        checked(recipe="bert", checkpoint=str(tmp_path))


def test_a_checkpoint_that_is_not_there() -> None:
    with pytest.raises(InputMissingError, match=r"checkpoint './nowhere' is not a folder: check the path"):
        checked(recipe="bert", checkpoint="./nowhere")
    with pytest.raises(InputMissingError, match="or write hub:org/bert@REVISION for a model of the Hugging Face hub"):
        checked(recipe="bert", checkpoint="org/bert")
    with pytest.raises(ParameterError, match="expected hub:ORG/NAME@REVISION with the full hash"):
        checked(recipe="bert", checkpoint="hub:org/bert@main")


def test_weights_that_cannot_be_read_or_are_another_s(tmp_path: Path) -> None:
    folder = checkpoint("bert", tmp_path)
    (folder / "model.safetensors").write_bytes(b"\x08half")
    with pytest.raises(DataError, match=r"checkpoint '.*' cannot be loaded"):
        recipe_of().build(context(checkpoint=str(folder)))


@pytest.mark.parametrize("name", ["bert", "roberta", "xlnet"])
def test_a_small_encoder_that_there_cannot_be_is_refused_where_it_is_built_too(name: str) -> None:
    for small, said in (
        ({"width": 30, "heads": 4}, "encoder.small.width 30 is not a multiple of encoder.small.heads 4"),
        ({"hiden": 8}, "encoder.small.hiden is not a setting: did you mean 'hidden'?"),
    ):
        recipe = RECIPES[name].changed(encoder={"small": small}, head={}, train={})
        with pytest.raises(ParameterError) as refusal:
            recipe.build(context(), "systems.x")
        assert str(refusal.value) == f"params.yaml: systems.x: {said}"


@pytest.mark.parametrize("name", ["roberta", "albert", "macbert", "ernie", "xlnet"])
def test_an_encoder_of_a_family_does_not_pass_over_what_its_view_was_taught(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        ParameterError, match=r"systems\.x: encoder\.family is '\w+', but the view pretrains a small encoder .*; use"
    ):
        RECIPES[name].build(context(pretrained=tmp_path), "systems.x")


def test_orders_whose_keys_would_not_fit_are_refused_with_those_that_do() -> None:
    recipe = RECIPES["tfidf_svm"].changed(model={"orders": [1, 2, 3, 4, 5]})
    with pytest.raises(ParameterError, match=r"systems\.x: model\.orders is .* of 50,000 tokens only orders up to 4"):
        recipe.build(context(vocabulary=50_000), "systems.x")
    recipe.build(context(vocabulary=6_000))


def test_a_view_with_more_tokens_than_the_checkpoint(tmp_path: Path) -> None:
    folder = checkpoint("bert", tmp_path)
    with pytest.raises(DataError, match=r"the checkpoint has 40 tokens but the view has 41; set the view's checkpoint"):
        recipe_of().build(context(checkpoint=str(folder), vocabulary=41))


def test_a_check_loads_neither_the_library_nor_a_checkpoint(tmp_path: Path) -> None:
    folder = checkpoint("bert", tmp_path)
    systems = {"bert_hth": {"view": "v"}, "roberta": {"view": "w"}, "xlnet": {"view": "w"}}
    params = {"dataset": "toy", "seeds": [0], "views": {"v": {"checkpoint": str(folder)}, "w": {}}, "systems": systems}
    (tmp_path / "params.yaml").write_text(json.dumps(params))
    code = (
        "import sys; from pathlib import Path; from epigram.runner.workspace.settings import load;"
        "from epigram.training.preflight import check_systems;"
        f"run = load(Path({str(tmp_path / 'params.yaml')!r})); "
        "check_systems(run.views, run.systems, run.train); sys.exit('transformers' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
