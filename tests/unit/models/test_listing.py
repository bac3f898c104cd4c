"""Tests of `epigram systems`: the listing of each system matches its behaviour."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from epigram.models.classifier import count_parameters
from epigram.models.recipe import Recipe
from epigram.nn.layers.types import DataSpec
from epigram.recipes.listing import REFERENCE, ListedSystem, compact_number, list_systems
from epigram.recipes.registry import RECIPES


@pytest.fixture(scope="module")
def rows() -> dict[str, ListedSystem]:
    return {row.system: row for row in list_systems()}


def shown(*options: str) -> str:
    command = [sys.executable, "-m", "epigram.cli", "systems", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_every_system_has_a_row_and_can_do_something(rows: dict[str, ListedSystem]) -> None:
    assert list(rows) == list(RECIPES)
    assert len(rows) >= 30
    assert all(row.tasks for row in rows.values())


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        ("textcnn", ("single", "multi")),
        ("bert_pta", ("single",)),  # a prompt predicts one label
        ("bert_tagger", ("tokens",)),
        ("random", ("single", "multi", "tokens")),
        ("mhal_joint", ("tokens",)),
    ],
)
def test_the_tasks_are_those_that_the_system_does_not_refuse(
    rows: dict[str, ListedSystem], name: str, tasks: tuple[str, ...]
) -> None:
    assert rows[name].tasks == tasks


@pytest.mark.parametrize("name", ["textcnn", "bert", "dmsp", "cnle"])
def test_parameters_are_counted_for_the_sizes_that_the_caption_names(rows: dict[str, ListedSystem], name: str) -> None:
    context = DataSpec(vocabulary=5_000, classes=2, max_length=128)
    assert rows[name].parameters == count_parameters(RECIPES[name].build(context))
    assert (REFERENCE.vocabulary, REFERENCE.classes, REFERENCE.max_length) == (5_000, 2, 128)


def test_a_new_recipe_appears_by_being_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(name="mine", about="it", paper="me", view="token", encoder={"kind": "embedding", "width": 8})
    monkeypatch.setitem(RECIPES, "mine", recipe)
    *_, last = list_systems()
    assert last == ListedSystem(
        system="mine", tasks=("single", "multi"), view="token", parameters=5_000 * 8 + 2 * 8 + 2, paper="me", about="it"
    )


@pytest.mark.parametrize(
    ("number", "said"),
    [(None, "depends on data"), (0, "0"), (12, "12"), (460_802, "460.8 k"), (1_186_818, "1.2 M"), (999_999, "1.0 M")],
)
def test_numbers_are_short(number: int | None, said: str) -> None:
    assert compact_number(number) == said


def test_the_command_says_the_same_to_a_reader_and_to_a_program(rows: dict[str, ListedSystem]) -> None:
    said: list[dict[str, Any]] = json.loads(shown("--json"))
    assert said == [{**vars(row), "tasks": list(row.tasks)} for row in rows.values()]
    table = shown()
    line = next(line for line in table.splitlines() if line.split()[:1] == ["textcnn"])
    assert "single multi" in line and "937.2 k" in line and "Kim (2014)" in line
    assert "a vocabulary of 5,000 tokens, 2 classes and a maximum length of 128 tokens" in " ".join(table.split())
