"""Tests of the settings of pruning."""

from __future__ import annotations

import pytest

from epigram.core.errors import ParameterError
from epigram.pruning.settings import PruneSettings


def test_which_layer_is_dropped_is_refused_for_the_rule_that_keeps_the_first_layers() -> None:
    with pytest.raises(ParameterError) as refusal:
        PruneSettings(rule="shallowest", drop="worst").check()
    assert str(refusal.value) == (
        "params.yaml: prune.drop is 'worst', which has no effect, because prune.rule is 'shallowest'; set drop to "
        "last, or rule to equation"
    )


def test_settings_with_an_effect_are_accepted() -> None:
    for settings in (PruneSettings(rule="shallowest"), PruneSettings(drop="worst"), PruneSettings(rule="algorithm")):
        settings.check()
