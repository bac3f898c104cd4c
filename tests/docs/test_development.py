"""The examples of docs/development.md, and the paths that README.md and docs name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from epigram.core.config_types import validate_as
from epigram.models.settings import System
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import recipe_of

ROOT = Path(__file__).parents[2]
DEVELOPMENT = (ROOT / "docs/development.md").read_text(encoding="utf-8")
PAGES = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/data.md")) + DEVELOPMENT


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DEVELOPMENT, re.DOTALL)


def test_the_recipe_builds() -> None:
    names: dict[str, object] = {}
    exec(next(block for block in blocks("python") if "RECIPES" in block), names)
    names["RECIPES"][0].build(DataSpec(vocabulary=50, classes=2, max_length=16))  # type: ignore[attr-defined]


def test_the_combination_builds() -> None:
    (name, values), *_ = yaml.safe_load(blocks("yaml")[0])["systems"].items()
    recipe = recipe_of(name, validate_as(System, values))
    import torch

    recipe.build(DataSpec(vocabulary=50, classes=2, max_length=16, pos_weight=torch.ones(50)))


@pytest.mark.parametrize("path", re.findall(r"`((?:src|data|docs|tests|flows|tasks)(?:/[\w/.]*)?)`", PAGES))
def test_every_path_exists(path: str) -> None:
    assert (ROOT / path).exists() or path.startswith(("runs/", "data/local/"))  # files of the user


def test_every_extra_is_named() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    listed = DEVELOPMENT[DEVELOPMENT.index("## Projects and extras") : DEVELOPMENT.index("`epigram init`")]
    assert [name for name in extras if f"`{name}`" not in listed and name not in ("dev", "pipeline")] == []
