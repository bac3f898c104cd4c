"""The languages whose texts are handled."""

from __future__ import annotations

from typing import Literal

Language = Literal["zh", "en"]


def as_language(name: str) -> Language:
    """Return `name` as a language; every language except Chinese is treated as English (words separated by spaces)."""
    return "zh" if name == "zh" else "en"
