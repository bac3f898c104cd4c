"""Tests of refused checkpoints: each gets a one-line error before anything runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.recipes.registry import RECIPES
from tests.support.families import FAMILIES, OTHERS, checkpoint, context, recipe_of
from tests.support.hub_server import CHECKPOINT
from tests.support.refusals import checked, pretrained


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
