"""Tests of budgets, plan files, and the part of the graph that a search runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from epigram.core.errors import InputMissingError, ParameterError
from epigram.runner.dvc.graph import Graph, Stage
from epigram.workflow.search.goal import Goal, parse_goal
from epigram.workflow.search.plan import RunPlan, read_plan, write_plan

PLAN = RunPlan(
    dataset="评论",
    seeds=[0],
    views={"token": {"tokenizer": "token"}},
    systems={"tfidf_svm": {"view": "token"}},
    compare={"prefer": "best"},
)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("20m", 1_200), ("1.5h", 5_400)])
def test_a_budget_has_a_unit(text: str, seconds: float) -> None:
    assert parse_goal(text, "best") == Goal(seconds=seconds, quality="best")


@pytest.mark.parametrize("text", ["20", "m", "-5m", "1e3s", "20 m", "5d", "", "9" * 9 + "s"])
def test_another_budget_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="invalid budget"):
        parse_goal(text, "good")


def test_an_unknown_quality_is_refused() -> None:
    with pytest.raises(ParameterError, match="expected fast, good, best"):
        parse_goal("10m", "superb")


@pytest.mark.parametrize(("text", "impossible"), [("10s", True), ("39.9s", True), ("40s", False), ("1m", False)])
def test_too_little_time_is_said_and_not_refused(text: str, impossible: bool) -> None:
    warning = parse_goal(text, "good").warning
    assert (warning is not None) == impossible
    if warning:
        assert f"--budget is {text}, but a run takes at least about 40s" in warning and "\n" not in warning


def test_a_plan_without_a_system_has_no_view_for_it_alone() -> None:
    views = {"token": {"tokenizer": "token"}, "sentences": {"tokenizer": "wordpiece"}}
    systems = {name: {"view": "sentences"} for name in ("hybrid_linear", "embedding_linear")}
    plan = replace(PLAN, views=views, systems={**PLAN.systems, **systems})
    assert plan.without(["hybrid_linear"]).views == views
    assert plan.without(["hybrid_linear", "embedding_linear"]) == PLAN
    assert plan.without(["sentences"]) == PLAN


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.yaml", PLAN)
    assert read_plan(tmp_path / "plan.yaml") == PLAN
    assert "epigram run --plan plan.yaml" in (tmp_path / "plan.yaml").read_text().splitlines()[0]


@pytest.mark.parametrize("content", ["", "[]", "dataset: mr", "dataset: mr\nseeds: [0]\nviews: {}\nsystems: 3\n"])
def test_what_is_no_plan_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(content)
    with pytest.raises(ParameterError, match=r"plan\.yaml"):
        read_plan(tmp_path / "plan.yaml")
    with pytest.raises(InputMissingError, match="is missing"):
        read_plan(tmp_path / "other.yaml")


def test_the_graph_up_to_a_folder_has_what_it_depends_on_and_nothing_else() -> None:
    def stage(name: str, *needs: str, out: str) -> Stage:
        return Stage(name=name, needs=frozenset(needs), outs=(Path(out),))

    stages = [
        stage("a", out="/w/data/raw"),
        stage("unused", "a", out="/w/data/other"),
        stage("b", "a", out="/w/data/encoded/token"),
        stage("c@token", "b", out="/w/data/pretrained/token"),
        stage("d", "c@token", out="/w/data/models/svm"),
    ]
    graph = Graph({each.name: each for each in stages}, frozenset({"a"}))
    assert list(graph.up_to(Path("/w/data/pretrained")).stages) == ["a", "b", "c@token"]


def test_in_turn_a_system_waits_for_all_stages_of_the_one_before_it() -> None:
    def stage(name: str, *needs: str) -> Stage:
        return Stage(name=name, needs=frozenset(needs), outs=(Path("/w", *reversed(name.split("@"))),))

    stages = [
        stage("cut@view"),
        *(stage(f"fit@{name}", "cut@view") for name in ("bert", "svm")),
        *(stage(f"judge@{name}", f"fit@{name}") for name in ("bert", "svm")),
        stage("compare", "judge@bert", "judge@svm"),
    ]
    graph = Graph({each.name: each for each in stages}, frozenset({"cut@view"}))
    assert graph.of("svm") == {"fit@svm", "judge@svm"}
    turns = graph.in_turn(["svm", "bert"])
    assert turns.current == graph.current
    assert turns.stages["fit@bert"].needs == {"cut@view", "fit@svm", "judge@svm"}
    assert turns.stages["fit@svm"].needs == {"cut@view"}
    assert turns.stages["compare"] == graph.stages["compare"]
    names = list(turns.stages)
    assert all(names.index(need) < names.index(each.name) for each in turns for need in each.needs)


def test_the_folders_of_other_systems_are_those_that_no_stage_writes(tmp_path: Path) -> None:
    for name in ("models/svm", "models/bert", "encoded/token", "compared"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "models" / "about.txt").touch()
    outs = {"fit@svm": "models/svm", "cut@token": "encoded/token", "compare": "compared"}
    stages = {name: Stage(name=name, needs=frozenset(), outs=(tmp_path / out,)) for name, out in outs.items()}
    assert Graph(stages).other_outputs(tmp_path) == [tmp_path / "models/bert"]
    assert Graph(stages).other_outputs(tmp_path / "models") == []  # its own folders are not next to outputs
