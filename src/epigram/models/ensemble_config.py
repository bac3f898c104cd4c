"""Validation of the settings of a saved ensemble."""

from __future__ import annotations

import math
from typing import Any

from epigram.core.config_types import has_type, is_name


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
    )


def _are_labels(labels: Any) -> bool:
    return has_type(labels, list[str]) and 0 < len(set(labels)) == len(labels)


def _is_temperature(value: Any) -> bool:
    return has_type(value, float) and 0 < value < math.inf
