"""Tests of incompatible parts: each gets a one-line error before anything runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.models.registry import RECIPES
from epigram.models.settings import System
from epigram.text.settings import PretrainSettings, View
from epigram.training.preflight import check_systems
from tests.support.families import FAMILIES, OTHERS, checkpoint, context, recipe_of

TINY = {"width": 16, "hidden": 24, "depth": 2, "heads": 2}


def checked(
    *,
    checkpoint: str | None = None,
    prompt: bool = False,
    multi: bool = False,
    tokens: bool = True,
    pretrain: PretrainSettings | None = None,
    shared: dict[str, Any] | None = None,
    **system: Any,
) -> None:
    """Check a run of one system, named x; `shared` is the train section of the run."""
    view = View(tokenizer="wordpiece", prompt=prompt, checkpoint=checkpoint, pretrain=pretrain)
    wanted = System(view="view", **{"recipe": "transformer", **system})
    check_systems({"view": view}, {"x": wanted}, shared or {}, multi=multi, tokens=tokens)


def pretrained(**settings: Any) -> dict[str, Any]:
    return {"kind": "pretrained", **settings}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_fits_together(name: str) -> None:
    checked(recipe=name, prompt=RECIPES[name].view.endswith("prompt"))


@pytest.mark.parametrize(
    "system",
    [
        {"encoder": {"kind": "bilstm"}, "head": {"kind": "prompt", "soft": True}},
        {
            "encoder": pretrained(head_to_head="residual", pos_weight="after"),
            "head": {"kind": "prompt", "fusion": "hook"},
        },
        {"encoder": {"attention": "correlation", "pos_weight": "log"}, "head": {"kind": "prompt", "fusion": "hook"}},
        {"encoder": {"heads": 4, "head_to_head": "paper", "pos_weight": "inside"}, "head": {"kind": "layer_ensemble"}},
        {"encoder": pretrained(family="roberta", pos_weight="after"), "head": {"kind": "label_decoder"}},
        {"recipe": "universal_transformer", "head": {"kind": "layer_ensemble"}},
        {"head": {"kind": "tagger"}, "train": {"stop_on": "token", "max_length": 2}},
        {"recipe": "bilstm_tagger", "head": {"kind": "linear"}, "train": {"stop_on": "sentence"}},
        {"train": {"stop_on": "sentence_f1"}},
        {"recipe": "bilstm_tagger", "train": {"stop_on": "mean_f1"}},
        {"recipe": "bert_pta", "pretrain": PretrainSettings()},
        {"encoder": pretrained(attention="correlation", pos_weight="after"), "head": {"kind": "prompt"}},
        {"encoder": pretrained(attention="correlation", family="ernie"), "head": {"kind": "layer_ensemble"}},
    ],
    ids=lambda system: str(system.get("head", {}).get("kind")),
)
def test_what_does_fit_is_taken(system: dict[str, Any]) -> None:
    checked(prompt=True, **system)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"recipe": "transfomer"}, "systems.x.recipe: unknown system 'transfomer': did you mean 'transformer'"),
    ({"encoder": {"widht": 8}}, "systems.x.encoder.widht is not a setting: did you mean 'width'"),
    ({"head": {"decision": "decoder"}}, "systems.x.head.decision is not a setting"),
    ({"head": {"fuson": "hook"}}, "systems.x.head.fuson is not a setting: did you mean 'fusion'"),
    ({"head": {"kind": "linaer"}}, "systems.x.head.kind is 'linaer': did you mean 'linear'"),
    ({"encoder": {"kind": "transformr"}}, "systems.x.encoder.kind is 'transformr': did you mean 'transformer'"),
    (
        {"recipe": "bert_hth", "encoder": {"attention": "correlation"}},
        "systems.x: encoder.head_to_head is 'residual', but encoder.attention is 'correlation', which has one head",
    ),
    ({"encoder": pretrained(attention="corelation")}, "systems.x.encoder.attention is 'corelation'"),
    ({"head": {"kind": "prompt"}}, "systems.x: head: prompt needs a view with prompt: true"),
    ({"head": {"kind": "prompt", "soft": True}}, "systems.x: head: prompt needs a view with prompt: true"),
    (
        {"head": {"kind": "prompt"}, "prompt": True, "multi": True},
        "head: prompt predicts one label per text, and the texts have several; use another head",
    ),
    (
        {"encoder": {"kind": "dpcnn"}, "head": {"kind": "prompt"}, "prompt": True},
        "prompt needs an encoder with one state",
    ),
    (
        {"encoder": {"kind": "vdcnn"}, "head": {"kind": "prompt"}, "prompt": True},
        "prompt needs an encoder with one state",
    ),
    (
        {"encoder": {"head_to_head": "paper", "heads": 1}},
        "head_to_head is 'paper', but the attention has one head; set",
    ),
    (
        {"encoder": pretrained(head_to_head="paper", small={"heads": 1})},
        "the attention has one head; set the encoder's",
    ),
    (
        {"encoder": {"head_to_head": "residual", "attention": "correlation"}},
        "head_to_head is 'residual', but encoder.attention is 'correlation', which has one head; set",
    ),
    (
        {"encoder": pretrained(head_to_head="residual", family="xlnet")},
        "encoder.head_to_head is 'residual', but the attention of xlnet cannot be replaced; set it to none, or use",
    ),
    ({"encoder": pretrained(pos_weight="after", family="xlnet")}, "pos_weight is 'after', but the attention of xlnet"),
    *(
        ({"recipe": name, "encoder": {"small": small}}, said)
        for name in ("bert", "roberta", "xlnet")
        for small, said in (
            ({"widht": 8}, "systems.x: encoder.small.widht is not a setting: did you mean 'width'"),
            ({"width": 30, "heads": 4}, "systems.x: encoder.small.width 30 is not a multiple of encoder.small.heads 4"),
        )
    ),
    (
        {"recipe": "bert_hth", "encoder": {"small": {"attention": "correlation"}}},
        "encoder.head_to_head is 'residual', but encoder.small.attention is 'correlation'",
    ),
    (
        {"encoder": {"kind": "bilstm", "pos_weight": "after"}},
        "encoder.pos_weight is 'after'; expected 'none' or 'embedding'",
    ),
    *(
        ({"encoder": {"kind": kind}, "head": {"kind": head, "fusion": "hook"}, "prompt": True}, "no layers to fuse")
        for kind in ("convolution", "embedding")
        for head in ("linear", "convolution", "prompt", "label_attention", "interaction")
    ),
    *(
        ({"encoder": {"kind": kind}, "head": {"kind": "layer_ensemble"}}, "layer_ensemble needs an encoder with layers")
        for kind in ("convolution", "dpcnn", "vdcnn", "fast_text")
    ),
    (
        {"encoder": {"width": 30, "heads": 3}, "head": {"kind": "label_decoder"}},
        r"a multiple of head.heads \(4\); the encoder's width is 30",
    ),
    ({"encoder": {"width": 30, "heads": 4}}, "encoder.width 30 is not a multiple of encoder.heads 4"),
    (
        {"head": {"kind": "convolution", "sizes": []}},
        r"systems.x: head.sizes is \[\]; expected at least one window size",
    ),
    ({"head": {"kind": ["linear"]}}, r"systems.x.head.kind is \['linear'\]: did you mean 'linear'"),
    ({"encoder": {"kind": {"transformer": 1}}}, "systems.x.encoder.kind is {'transformer': 1}: "),
    ({"recipe": "bert", "encoder": {"backbone": {}}}, "systems.x.encoder.backbone is not a setting; remove it"),
    *(
        (
            {"recipe": name, "pretrain": PretrainSettings()},
            f"systems.x: encoder.family is '{family}', but the view pretrains",
        )
        for name, family in (("roberta", "roberta"), ("macbert", "macbert"), ("xlnet", "xlnet"))
    ),
    (
        {"train": {"stop_on": "token"}, "shared": {"stop_on": "mean"}},
        "systems.x.train.stop_on is 'token', but the head of systems.x, linear, labels no tokens; set .* to sentence",
    ),
    ({"shared": {"stop_on": "mean"}}, "(?<= )train.stop_on is 'mean', .*; set systems.x.train.stop_on to sentence"),
    (
        {"recipe": "bilstm_tagger", "head": {"kind": "linear"}},
        "systems.x.train.stop_on .from the recipe. is 'mean', but the head",
    ),
    (
        {"train": {"stop_on": "mean_f1"}},
        "systems.x.train.stop_on is 'mean_f1', but the head of systems.x, linear, labels no tokens; set",
    ),
    (
        {"shared": {"stop_on": "sentence_f1"}, "tokens": False},
        "(?<= )train.stop_on is 'sentence_f1', but the data have no token labels, so .* set systems.x.train.stop_on to",
    ),
    (
        {"train": {"stop_on": "sentence_f1"}, "multi": True},
        "systems.x.train.stop_on is 'sentence_f1', but texts may have several labels; set .* to sentence$",
    ),
    (
        {"recipe": "tfidf_svm", "train": {"stop_on": "mean_f1"}},
        "systems.x.train.stop_on has no effect, because the model",
    ),
    ({"recipe": "tfidf_svm", "head": {"kind": "prompt"}}, "systems.x.head: linear_svm has no head; remove this key"),
    (
        {"recipe": "tfidf_svm", "encoder": {"orders": [1]}},
        "systems.x.encoder: linear_svm has no encoder; .*under systems.x.model$",
    ),
    (
        {"recipe": "tfidf_svm", "model": {"ordres": [1]}},
        "x.model.ordres is not a setting: did you mean 'orders'",
    ),
    ({"recipe": "textcnn", "model": {"orders": [1]}}, "systems.x.model.orders is not a setting"),
    (
        {"recipe": "textcnn", "model": {"kind": "linear_svn"}},
        "x.model.kind is 'linear_svn': did you mean 'linear",
    ),
]


@pytest.mark.parametrize(("system", "said"), WRONG)
def test_what_does_not_fit_is_refused_with_the_reason(system: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=f"^params.yaml: .*{said}") as refusal:
        checked(**system)
    assert "\n" not in str(refusal.value)


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
    checked(recipe="bert", checkpoint="someone/a-name-of-the-hub")


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
