"""What the settings of a part say about it, which is read before anything is built, is true of the part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from epigram.core.effects import notes_of
from epigram.models.recipe import ENCODERS, HEADS, MODELS, parse_part
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.nn.pretrained.families import SmallSizes
from epigram.training.config import TrainingConfig
from tests.support.small_systems import SMALL, SMALL_HEADS

LENGTH, MIDDLE, MASK = 23, 11, 4
CONTEXT = DataSpec(
    vocabulary=60, classes=3, max_length=LENGTH, labels=("a", "b", "c"), token_labels=("O", "a", "b", "c"),
    characters=12, mask_id=MASK, prefix_ids=(5, MASK, MASK), pos_weight=torch.ones(60),
)  # fmt: skip
CASES: list[tuple[str, dict[str, Any]]] = [*((kind, {}) for kind in ENCODERS), ("pretrained", {"family": "xlnet"})]


def encoded(encoder: Any, ids: torch.Tensor) -> Any:
    torch.manual_seed(0)
    spelled = torch.stack([ids % 10 + 2, ids // 10 + 2], -1)
    with torch.inference_mode():
        return encoder.eval()(Tokens(ids, torch.ones_like(ids, dtype=torch.bool), characters=spelled))


def text() -> torch.Tensor:
    return torch.randint(6, 60, (1, LENGTH), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("kind", "changes"), CASES)
def test_the_properties_of_an_encoder(kind: str, changes: dict[str, Any]) -> None:
    settings = parse_part(ENCODERS, {"kind": kind, **SMALL[kind], **changes}, "")
    encoder = settings.build(CONTEXT)
    settings.check(CONTEXT)
    last = encoded(encoder, text()).last
    assert settings.state_width(CONTEXT) == encoder.width == last.shape[-1]
    assert settings.keeps_tokens == (last.shape[1] == LENGTH)
    assert settings.pooled == (last.shape[1] == 1)
    assert settings.has_layers == (encoder.depth > 0)
    assert settings.several_states == (encoder.state_count > 1)


@pytest.mark.parametrize("kind", ENCODERS)
def test_an_encoder_needs_no_table_of_parts_of_speech_unless_it_is_set_to(kind: str) -> None:
    parse_part(ENCODERS, {"kind": kind}, "").check(replace(CONTEXT, pos_weight=None))


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_state_depends_on_most_tokens_if_the_encoder_says_so(kind: str) -> None:
    settings = parse_part(ENCODERS, {"kind": kind, **SMALL[kind]}, "")
    if not settings.keeps_tokens:
        return
    torch.manual_seed(0)
    encoder = settings.build(CONTEXT)
    usual = encoded(encoder, text()).last[0, MIDDLE]
    changed = []
    for place in range(LENGTH):
        ids = text()
        ids[0, place] = 60 - ids[0, place].clamp(max=54)
        changed.append(not torch.allclose(encoded(encoder, ids).last[0, MIDDLE], usual, atol=1e-7))
    assert (sum(changed) > LENGTH / 2) == settings.reads_whole_text


@pytest.mark.parametrize("kind", HEADS)
def test_the_properties_of_a_head(kind: str) -> None:
    encoder = parse_part(ENCODERS, {"kind": "transformer", **SMALL["transformer"]}, "")
    settings = parse_part(HEADS, {"kind": kind, **SMALL_HEADS.get(kind, {})}, "")
    settings.check(CONTEXT, encoder)
    built = encoder.build(CONTEXT)
    head, ids = settings.build(CONTEXT, built).eval(), torch.cat([torch.tensor([[5, MASK, MASK]]), text()[:, 3:]], 1)
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), labels=ids % 4)
    losses = []
    for labels in (tokens.labels, (ids + 1) % 4):
        prediction = head(built.eval()(replace(tokens, labels=labels)), torch.tensor([1]))
        losses.append(float(prediction.loss.detach()))
    assert settings.labels_tokens == (prediction.tokens is not None)
    assert settings.learns_tokens == (losses[0] != losses[1])


@pytest.mark.parametrize("kind", [kind for kind in HEADS if not HEADS[kind].one_label])
def test_the_logits_of_several_labels_have_gradients_unless_they_are_searched(kind: str) -> None:
    context = replace(CONTEXT, multi=True, label_shares=torch.full((3,), 0.5))
    encoder = parse_part(ENCODERS, {"kind": "transformer", **SMALL["transformer"]}, "").build(context)
    settings = parse_part(HEADS, {"kind": kind, **SMALL_HEADS.get(kind, {})}, "")
    ids = text()
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool))
    assert settings.build(context, encoder)(encoder(tokens)).logits.requires_grad is not settings.searches


@pytest.mark.parametrize("kind", [kind for kind in MODELS if "classifier" not in kind])
def test_a_model_without_an_encoder_labels_tokens_if_it_says_so(kind: str) -> None:
    config: Any = MODELS[kind]()
    ids = text()
    prediction = config.build(CONTEXT).eval()(Tokens(ids, torch.ones_like(ids, dtype=torch.bool)))
    assert config.labels_tokens == (prediction.tokens is not None)


def test_every_note_names_a_setting_or_a_property_that_there_is() -> None:
    """A wrong name would never deprive a setting of its effect."""
    parts: dict[str, list[Any]] = {
        "encoder": [ENCODERS[kind](**SMALL[kind]) for kind in ENCODERS],
        "head": [HEADS[kind]() for kind in HEADS],
        "data": [CONTEXT],
    }
    for own in (*parts["encoder"], *parts["head"], TrainingConfig(), SmallSizes()):
        for name, notes in notes_of(type(own)).items():
            for note in notes:
                for wanted in (note.name, *(note.when or ())[:1]):
                    section, _, attribute = wanted.rpartition(".")
                    assert any(hasattr(part, attribute) for part in parts.get(section, [own])), (name, wanted)
