"""Tests of the environment of HTML templates, and that the package contains every template."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from epigram.core.templates import environment

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "epigram"


@pytest.mark.parametrize("package", ["epigram.report", "epigram.data.validation"])
def test_values_are_escaped_and_an_undefined_name_is_an_error(package: str) -> None:
    env = environment(package)
    assert env.from_string("{{ text }}").render(text="<b>'x' & \"y\"") == "&lt;b&gt;&#39;x&#39; &amp; &#34;y&#34;"
    with pytest.raises(UndefinedError):
        env.from_string("{{ absent }}").render()


def test_the_package_contains_every_template() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["epigram"]
    packaged = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    templates = set(PACKAGE.rglob("*.j2"))
    assert len(templates) > 5
    assert templates <= packaged
