"""Notes of settings that have an effect in some combinations only."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any

import pytest

from epigram.core.config_types import Positive, Strict, validate_as
from epigram.core.effects import Only, Unless, unused
from epigram.core.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class Sizes(Strict):
    """Settings of a sub-section."""

    heads: Annotated[Positive, Only("part.kind", "dot")] = 4


@dataclass(frozen=True, kw_only=True)
class Settings(Strict):
    """Settings with every kind of note."""

    kind: str = "dot"
    rate: float = 0.0
    free: int = 1
    temperature: Annotated[Annotated[Positive, Only("kind", "cosine", "correlation")], Unless("rate", 0.0)] = 1
    pool: Annotated[str, Unless("data.one", True, when=("pool", "mean", "max"), because="{data.one}: one state")] = (
        "mean"
    )
    sizes: Annotated[bool, Only("data.checkpoint", None)] = True

    @property
    def nested(self) -> dict[str, Any]:
        """The sub-sections."""
        return {"sizes": Sizes()}


def without_effect(data: Any = None, **settings: Any) -> dict[str, str]:
    own = Settings(**settings)
    return unused(own, "part", {"data": data, "part": own})


def test_each_note_deprives_its_setting_of_the_effect() -> None:
    assert without_effect() == {"part.temperature": "part.kind is 'dot'"}
    assert without_effect(kind="cosine") == {
        "part.temperature": "part.rate is 0.0",
        "part.sizes.heads": "part.kind is 'cosine'",
    }
    assert without_effect(kind="correlation", rate=0.5) == {"part.sizes.heads": "part.kind is 'correlation'"}


@pytest.mark.parametrize(("pool", "one", "known"), [("mean", True, True), ("mean", False, False), ("all", True, False)])
def test_a_note_with_a_second_condition_needs_both(pool: str, one: bool, known: bool) -> None:
    found = without_effect(SimpleNamespace(one=one), pool=pool)
    assert found.get("part.pool") == ("True: one state" if known else None)


def test_a_section_without_effect_is_named_instead_of_its_settings() -> None:
    found = without_effect(SimpleNamespace(checkpoint="folder"), kind="cosine", rate=1.0)
    assert found == {"part.sizes": "data.checkpoint is 'folder'"}


def test_a_name_that_the_section_does_not_have_is_no_reason() -> None:
    assert "part.sizes" not in without_effect(SimpleNamespace())


def test_settings_with_notes_are_validated_as_usual() -> None:
    assert validate_as(Settings, {"temperature": "2"}, "part").temperature == 2
    with pytest.raises(ParameterError, match=r"part\.temperature is 0; expected a number greater than or equal to 1"):
        validate_as(Settings, {"temperature": 0}, "part")
