"""Candidates of a search: their settings pass the check of a run, whatever the project's section `train` has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epigram.core.config_types import validate_as
from epigram.models.settings import System
from epigram.text.settings import ViewSettings
from epigram.training.preflight import check_systems
from epigram.workflow.search import candidates
from epigram.workflow.search.candidates import Candidate, Facts
from tests.support.sentence_encoder import write_checkpoint
from tests.support.tiny_bert import write_bert

EVERY: dict[str, Any] = {"evaluations": 2, "evaluation_steps": 100, "min_steps": 300}


def facts_of(checkpoint: Path | None, **shared: Any) -> Facts:
    name = None if checkpoint is None else str(checkpoint)
    return Facts(language="en", train=2_000, dev=500, test=500, folds=0, checkpoint=name, shared=shared)


def all_candidates(facts: Facts) -> list[Candidate]:
    of_texts = [*candidates.linear(facts), *candidates.frozen(facts)]
    return [*of_texts, *candidates.trained(facts, "best"), *candidates.contrastive(replace(facts, train=100), "best")]


@pytest.fixture(params=["none", "bert", "sentence encoder"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    if request.param == "bert":
        return write_bert(tmp_path / "bert", ("a",))
    if request.param == "none":
        return None
    write_checkpoint(tmp_path, ["a"])
    return tmp_path


@pytest.mark.parametrize("shared", [EVERY, {"evaluations": 2}, {"evaluations": 2, "evaluation_steps": None}])
def test_no_candidate_has_a_setting_of_the_project_that_has_no_effect(
    shared: dict[str, Any], checkpoint: Path | None
) -> None:
    """With `evaluation_steps`, the project's `evaluations` are only a warning, and refused in a system."""
    facts = facts_of(checkpoint, **shared)
    views = {name: validate_as(ViewSettings, view) for name, view in candidates.views(facts).items()}
    found = all_candidates(facts)
    assert {"fine_tuned" if checkpoint else "textcnn", "tfidf_svm"} <= {each.name for each in found}
    for each in found:
        check_systems(views, {each.name: validate_as(System, each.settings)}, shared, tokens=False)


@pytest.mark.parametrize(
    ("shared", "copied"),
    [
        (EVERY, {"evaluation_steps": 100, "min_steps": 300}),
        ({"evaluations": 2, "epochs": 9}, {"evaluations": 2}),
        ({"evaluations": 2, "evaluation_steps": None}, {"evaluations": 2, "evaluation_steps": None}),
    ],
)
def test_a_candidate_has_the_shared_settings_that_determine_its_time(
    shared: dict[str, Any], copied: dict[str, Any]
) -> None:
    (network,) = candidates.trained(facts_of(None, **shared), "good")
    assert network.system.train == {"epochs": 8, "batch_size": 64} | copied
