"""Settings of a saved ensemble: those of its words, and the validation of all."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from epigram.core.config_types import has_type, is_name


@dataclass(frozen=True, kw_only=True)
class WordSettings:
    """Labels of words, the default one first, and the temperature of the ensemble's probabilities of words.

    `members` has the temperature of the word probabilities of each member that labels words.
    """

    labels: list[str]
    temperature: float
    members: dict[str, float]


def is_valid(config: dict[str, Any], labels: Any) -> bool:
    """Return whether `config` and the `labels` of texts are those of an ensemble."""
    values: list[Any] = [config.get(name) for name in ("weights", "temperature", "thresholds")]
    weights, temperature, thresholds = values
    return (
        _are_labels(labels)
        and config.get("task") in ("single", "multi")
        and has_type(weights, dict[str, float])
        and all(is_name(name) and weight > 0 for name, weight in weights.items())
        and math.isclose(sum(weights.values()), 1.0, abs_tol=1e-6)
        and _is_temperature(temperature)
        and has_type(thresholds, list[float])
        and len(thresholds) == len(labels)
        and ("words" not in config or _are_word_settings(config["words"], weights))
    )


def _are_word_settings(words: Any, weights: dict[str, float]) -> bool:
    return (
        has_type(words, dict[str, Any])
        and set(words) == {each.name for each in fields(WordSettings)}
        and _are_labels(words["labels"])
        and has_type(words["members"], dict[str, float])
        and set(words["members"]) <= set(weights)
        and bool(words["members"])
        and all(_is_temperature(each) for each in (words["temperature"], *words["members"].values()))
    )


def _are_labels(labels: Any) -> bool:
    return has_type(labels, list[str]) and 0 < len(set(labels)) == len(labels)


def _is_temperature(value: Any) -> bool:
    return has_type(value, float) and 0 < value < math.inf
