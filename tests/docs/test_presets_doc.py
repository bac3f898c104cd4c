"""docs/presets.md: its tables are those of the code, and its example is allowed."""

from __future__ import annotations

import re

import yaml

from epigram.core.config_types import validate_as
from epigram.models.settings import System
from epigram.recipes.registry import recipe_of
from tests.support.presets_page import PAGE, START, tables

DOC = PAGE.read_text(encoding="utf-8")


def test_the_tables_are_current() -> None:
    assert DOC.partition(START)[2] == "\n" + tables(), "run python -m tests.support.presets_page"


def test_the_example_has_the_values_that_it_names() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", DOC, re.DOTALL)
    run = yaml.safe_load(block)
    rates = {}
    for name, values in run["systems"].items():
        checkpoint = run["views"].get(values["view"], {}).get("checkpoint")
        rates[name] = recipe_of(name, validate_as(System, values), checkpoint=checkpoint).train["learning_rate"]
    assert rates == {"transformer_f": 5e-4, "bert_hth_pta": 2e-5}


def test_what_the_text_says_of_the_tables_holds() -> None:
    cells = {line.split(" | ")[0].strip("| "): line for line in tables().splitlines() if line.startswith("| `")}
    assert any("`bert_hth`" in systems for systems in cells)
    assert "encoder.width 512 (128)" in tables() and "encoder.levels 7 (5)" in tables()
