"""Tests of systems that expect a family of pretrained encoders: with its checkpoint, a wrong one, and none."""

from __future__ import annotations

from pathlib import Path

import pytest

from epigram.core.errors import ParameterError
from epigram.models.registry import RECIPES
from epigram.nn.encoders.pretrained import PretrainedEncoder
from epigram.pruning.depth import truncated_copy
from tests.support.families import FAMILIES, checkpoint, context, texts

EXPECTED = {"roberta": "roberta", "albert": "albert", "macbert": "bert", "ernie": "ernie", "xlnet": "xlnet"}
XLNET = {"d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 24}


@pytest.mark.parametrize(("name", "family"), EXPECTED.items())
def test_a_checkpoint_of_the_family_is_taken(name: str, family: str, tmp_path: Path) -> None:
    folder = checkpoint(family, tmp_path, {**FAMILIES, "xlnet": XLNET}[family])
    model = RECIPES[name].build(context(checkpoint=str(folder)))
    assert model.depth == 3 and model.eval()(texts()).logits.shape == (3, 2)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_checkpoint_of_another_family_is_refused(name: str, tmp_path: Path) -> None:
    folder = checkpoint("electra", tmp_path)
    message = rf"systems\.x: encoder\.family is '{EXPECTED[name]}', but the view's checkpoint '.*' is of family electra"
    with pytest.raises(ParameterError, match=message):
        RECIPES[name].build(context(checkpoint=str(folder)), "systems.x")


@pytest.mark.parametrize("name", EXPECTED)
def test_without_a_checkpoint_it_is_a_small_one_of_the_family(name: str) -> None:
    model = RECIPES[name].build(context())
    assert isinstance(model.encoder, PretrainedEncoder)
    assert model.encoder.backbone.config.model_type == EXPECTED[name]
    assert truncated_copy(model, 2).eval()(texts()).logits.shape == (3, 2)


def test_a_size_that_there_is_not_is_named() -> None:
    recipe = RECIPES["roberta"].changed(encoder={"small": {"widht": 8}}, head={}, train={})
    with pytest.raises(ParameterError, match=r"encoder\.small\.widht is not a setting: did you mean 'width'"):
        recipe.build(context())
