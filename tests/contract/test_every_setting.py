"""Every setting of every part changes the model or its training; otherwise it is refused by its name.

A setting is changed to several other values. Two steps of training and a prediction before and after them, which
include the names and shapes of the weights, are compared with those of the unchanged part.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest
import torch

from epigram.core.errors import ParameterError
from epigram.models.recipe import ENCODERS, HEADS, Recipe, parse_part
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.nn.pretrained.families import SmallSizes
from epigram.training.check_system import unused_settings
from epigram.training.config import TrainingConfig
from tests.support.other_values import other_values
from tests.support.tiny_bert import SPECIAL, write_bert

VOCABULARY, CLASSES, MASK, PREFIX = 40, 5, 4, (2, 10, 4, 11, 4)
TEXTS, LENGTH = 6, 9
TINY: dict[str, dict[str, Any]] = {
    "transformer": {"width": 8, "heads": 2, "hidden": 8, "depth": 3},
    "universal_transformer": {"width": 8, "heads": 2, "hidden": 8, "depth": 3},
    "semantic_perceptron": {"width": 8, "hidden": 8, "depth": 3},
    "bilstm": {"width": 8, "depth": 2},
    "projected_bilstm": {"embedding": 8, "width": 8},
    "char_bilstm": {"embedding": 6, "width": 4, "character_embedding": 4, "character_width": 4, "spelling": 4},
    "convolution": {"embedding": 6, "filters": 4},
    "dpcnn": {"embedding": 6, "filters": 4, "levels": 2},
    "vdcnn": {"embedding": 6, "filters": [4, 4, 4, 4], "hidden": 8, "k": 2},
    "embedding": {"width": 8},
    "region": {"width": 8, "radius": 1},
    "global_local": {"embedding": 6, "filters": 4},
    "fast_text": {"width": 8, "buckets": 50},
    "sentence_encoder": {},
    "static_embedding": {"width": 8},
    "pretrained": {"small": {"width": 8, "heads": 2, "hidden": 8, "depth": 2}},
}
STACK = {"kind": "transformer", **TINY["transformer"]}
PART: dict[str, Any] = {"kind": "linear"}


@dataclass(frozen=True)
class Case:
    """A model whose `part` is changed: settings of encoder and head, and what its data are like."""

    part: str
    encoder: dict[str, Any]
    head: dict[str, Any] = field(default_factory=lambda: PART)
    data: dict[str, Any] = field(default_factory=dict)
    checkpoint: bool = False

    def __str__(self) -> str:
        changed = self.encoder if self.part == "encoder" else self.head
        data = [*self.data, *["checkpoint"] * self.checkpoint]
        return "-".join(f"{value}" for value in (*changed.values(), *data) if isinstance(value, str | float))


def encoder(kind: str, **settings: Any) -> Case:
    return Case("encoder", {"kind": kind, **TINY[kind], **settings})


def head(kind: str, on: dict[str, Any] = STACK, data: dict[str, Any] | None = None, **settings: Any) -> Case:
    return Case("head", on, {"kind": kind, **settings}, data or {})


CASES = [
    *(encoder(kind) for kind in TINY),
    encoder("transformer", attention="correlation"),
    encoder("transformer", head_to_head="paper"),
    encoder("universal_transformer", attention="correlation"),
    encoder("universal_transformer", depth=1),
    encoder("semantic_perceptron", order="none"),
    encoder("semantic_perceptron", order="expectation"),
    encoder("char_bilstm", lm_weight=0.1),
    replace(encoder("char_bilstm"), data={"characters": 0}),
    encoder("pretrained", head_to_head="residual"),
    encoder("pretrained", attention="correlation", family="bert"),
    encoder("pretrained", attention="correlation", family="albert"),
    replace(encoder("pretrained"), checkpoint=True),
    replace(encoder("pretrained", head_to_head="paper"), checkpoint=True),
    *(head(kind) for kind in HEADS),
    head("linear", {"kind": "vdcnn", **TINY["vdcnn"]}),
    head("label_decoder", data={"multi": True}),
    head("attention_labeler", attention_weight=0.01, query_weight=0.5),
    head("layer_ensemble", mode="last"),
    head("layer_ensemble", mode="ensemble"),
    head("layer_ensemble", threshold=0.9),
]


def test_every_encoder_and_every_head_is_tried() -> None:
    assert {case.encoder["kind"] for case in CASES if case.part == "encoder"} == set(ENCODERS)
    assert {case.head["kind"] for case in CASES if case.part == "head"} == set(HEADS)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    words = tuple(map(str, range(VOCABULARY - len(SPECIAL))))
    return str(write_bert(tmp_path_factory.mktemp("checkpoint") / "tiny", words))


def context_of(case: Case, checkpoint: str) -> DataSpec:
    context = DataSpec(
        vocabulary=VOCABULARY,
        classes=CLASSES,
        max_length=LENGTH + len(PREFIX),
        labels=tuple("abcde"),
        token_labels=tuple("Oabcde"),
        characters=7,
        mask_id=MASK,
        prefix_ids=PREFIX,
        pos_weight=torch.where(torch.arange(VOCABULARY) % 3 == 0, 0.5, 1.0),
        label_shares=torch.arange(CLASSES) / CLASSES,
        checkpoint=checkpoint if case.checkpoint else None,
    )
    return replace(context, **case.data)


def recipe_of(case: Case) -> Recipe:
    return Recipe(name="x", about="", paper="", view="", encoder=case.encoder, head=case.head)


def texts(context: DataSpec) -> tuple[Tokens, torch.Tensor]:
    """Return a batch after the prompt, and its labels."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, VOCABULARY, (TEXTS, LENGTH), generator=generator)
    ids = torch.cat([torch.tensor(PREFIX).expand(TEXTS, -1), ids], 1)
    valid = torch.arange(ids.shape[1]) < len(PREFIX) + torch.tensor([[9], [3], [9], [1], [6], [8]])
    spelled = torch.stack([ids % 5 + 2, ids // 5 % 5 + 2], -1) if context.characters else None
    labels = torch.where(valid, ids % 6, -1)
    one = torch.arange(TEXTS) % CLASSES
    several = (torch.rand(TEXTS, CLASSES, generator=generator) < 0.5).float()
    return Tokens(ids * valid, valid, characters=spelled, labels=labels), several if context.multi else one


def outcome(recipe: Recipe, context: DataSpec) -> list[bytes]:
    """Return the shapes of a model's weights, who decides on labels,
    and its predictions before and after two steps and depth control."""
    torch.manual_seed(0)
    model: Any = recipe.build(context)
    tokens, labels = texts(context)
    found = [repr([(name, tuple(value.shape)) for name, value in model.state_dict().items()]).encode()]
    found.append(repr(model.head.decodes).encode())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def look() -> None:
        with torch.inference_mode():
            found.append(model.eval()(tokens).logits.numpy().tobytes())

    look()
    for _ in range(2):
        loss = model.train()(tokens, labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    look()
    if model.depth == 3:
        model.adapt([0.95, 0.5, 0.948])
        look()
    return found


def settings_of(case: Case) -> dict[str, tuple[type, Any]]:
    """Return the settings of the part, those of a small pretrained encoder included: key → class and value."""
    kinds, values = (ENCODERS, case.encoder) if case.part == "encoder" else (HEADS, case.head)
    part = parse_part(kinds, values, "")
    found = {each.name: (type(part), getattr(part, each.name)) for each in fields(part) if each.name != "backbone"}
    if "small" in found:
        small = SmallSizes(**case.encoder["small"])
        del found["small"]
        found |= {f"small.{each.name}": (type(small), getattr(small, each.name)) for each in fields(small)}
    return found


def with_setting(case: Case, key: str, value: Any) -> Case:
    values = dict(getattr(case, case.part))
    if key.startswith("small."):
        values["small"] = {**values["small"], key.removeprefix("small."): value}
    else:
        values[key] = value
    return replace(case, **{case.part: values})


def is_unused(case: Case, key: str, context: DataSpec) -> bool:
    """Return whether the check of a system says that the setting has no effect."""
    unused = unused_settings(recipe_of(case), TrainingConfig(), context)
    return any(f"{case.part}.{name}" in unused for name in (key, key.partition(".")[0]))


def has_effect(case: Case, key: str, other: Any, usual: list[bytes], context: DataSpec) -> bool:
    """Return whether the value `other` changes the model, or is refused; False if it is reported as without effect."""
    changed = with_setting(case, key, other)
    try:
        same = outcome(recipe_of(changed), context) == usual
    except ParameterError as refusal:
        assert key.rpartition(".")[2] in str(refusal)
        return True
    if is_unused(changed, key, context):
        assert same, f"{key} is said to have no effect, but {other} changes the model"
    return not same


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_setting_of_a_part_has_an_effect_or_is_refused(case: Case, checkpoint: str) -> None:
    context = context_of(case, checkpoint)
    usual, silent = outcome(recipe_of(case), context), []
    for key, (kind, value) in settings_of(case).items():
        others = ["bert", "roberta"] if key == "family" else other_values(kind, key.rpartition(".")[2], value)
        effective = any(has_effect(case, key, other, usual, context) for other in others)
        if not effective and not is_unused(case, key, context):
            silent.append(key)
    assert not silent, "settings without effect that no message names"
