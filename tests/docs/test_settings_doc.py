"""docs/settings.md: its tables are those of the code, and every setting is explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from epigram.core.config_types import Positive, Range, Strict
from epigram.core.settings import SECTIONS
from tests.support.settings_page import PAGE, START, table, tables

DOC = PAGE.read_text(encoding="utf-8")


def test_the_tables_are_current() -> None:
    assert DOC.partition(START)[2] == "\n" + tables(), "run python -m tests.support.settings_page"


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_is_on_the_page(section: str) -> None:
    assert f"## `{section}" in DOC or f"* `{section}`:" in DOC


def test_every_setting_is_explained() -> None:
    silent = [line for line in tables().splitlines() if line.startswith("| `") and line.endswith("|  |")]
    assert silent == []


@dataclass(frozen=True, kw_only=True)
class Inner(Strict):
    """Inner settings."""

    depth: Positive = 3  # layers


@dataclass(frozen=True, kw_only=True)
class Outer(Strict):
    """Outer settings."""

    name: str
    # rate of the
    share: Annotated[float, Range(gt=0.0, le=1.0)] = 0.5  # step
    # how it starts
    start: Literal["a", "b"] | None = None
    many: Annotated[int | None, Range(ge=2)] = 8  # at most
    inner: Inner | None = None  # {} turns it on


def test_a_table_says_what_a_key_allows() -> None:
    first, second = table(Outer, "part")
    assert first.startswith("## `part`\n\nOuter settings.\n\n| key")
    assert first.splitlines()[6:] == [
        "| `name` | string | required |  |",
        "| `share` | number > 0 and ≤ 1 | `0.5` | step |",
        "| `start` | `a`, `b`, `null` | `null` | how it starts |",
        "| `many` | integer ≥ 2, `null` | `8` | at most |",
        "| `inner` | mapping, `null` | `null` | {} turns it on |",
    ]
    assert second.splitlines()[-1] == "| `depth` | integer ≥ 1 | `3` | layers |"
