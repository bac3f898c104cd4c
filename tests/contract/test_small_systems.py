"""The small systems of the tests: those that some tests leave out repeat the parts of others."""

from __future__ import annotations

from typing import Any

from tests.support.small_systems import NAMES, REPEATED, build, recipe_of


def parts_of(name: str) -> set[Any]:
    """Return the kinds of a system's modules, and the settings of its parts that are no numbers."""
    recipe = recipe_of(name)
    named = [item for part in (recipe.encoder, recipe.head) for item in part.items() if isinstance(item[1], str)]
    return {type(module) for module in build(recipe).modules()} | set(named)


def test_a_system_that_is_left_out_has_no_part_that_the_others_lack() -> None:
    others = set[Any]().union(*(parts_of(name) for name in NAMES if name not in REPEATED))
    assert [name for name in sorted(REPEATED) if not parts_of(name) <= others] == []
