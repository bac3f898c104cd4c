"""The prune stage: which settings of params.yaml it prunes a system by."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from epigram.pruning.settings import PruneSettings
from epigram.stages import prune


@pytest.mark.parametrize(
    ("own", "enabled"), [({}, True), ({"preset": "paper"}, False), ({"preset": "paper", "prune": True}, True)]
)
def test_a_system_with_the_settings_of_a_paper_keeps_its_layers(
    own: dict[str, Any], enabled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[PruneSettings] = []
    system = {"view": "v", "recipe": "transformer_f", **own}
    params = {"dataset": "x", "seeds": [0], "views": {"v": {}}, "systems": {"x": system}, "prune": {"epochs": 3}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("epigram.workflow.prune.prune_system", lambda name, settings, *_, **__: found.append(settings))
    monkeypatch.setattr(sys, "argv", ["prune", "x", "encoded", "models", "out"])
    prune.main()
    assert found == [PruneSettings(enabled=enabled, epochs=3)]
