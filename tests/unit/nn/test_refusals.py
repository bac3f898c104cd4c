"""Tests of incompatible parts: each gets a one-line error before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from epigram.core.errors import ParameterError
from epigram.text.settings import PretrainSettings
from tests.support.refusals import checked, pretrained


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
        {"train": {"stop_on": "macro_f1"}},
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
        {"encoder": pretrained(small={"attention": "correlation"})},
        "systems.x: encoder.small.attention is not a setting",
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
        r"systems.x.head.sizes is \[\]; expected at least one window size",
    ),
    (
        {"encoder": {"kind": "convolution", "sizes": []}},
        r"systems.x.encoder.sizes is \[\]; expected at least one window",
    ),
    ({"encoder": {"kind": "vdcnn", "filters": [64, 128]}}, r"x.encoder.filters is \[64, 128\]; expected four widths"),
    ({"encoder": {"kind": "fast_text", "orders": [2, 2]}}, r"x.encoder.orders is \[2, 2\]; expected distinct values"),
    ({"head": {"kind": "linear_ngrams", "orders": []}}, r"x.head.orders is \[\]; expected distinct values of n"),
    ({"encoder": {"kind": "projected_bilstm", "width": 7}}, "x.encoder.width is 7; expected an even number, half of"),
    ({"encoder": {"kind": "universal_transformer", "positions": "learned"}}, "supports only sinusoidal"),
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
