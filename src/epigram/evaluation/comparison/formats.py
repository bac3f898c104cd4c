"""Formatting of numbers and lists for reports."""

from __future__ import annotations

import math
from collections.abc import Sequence

from epigram.evaluation.metrics.primary import in_percent, is_loss

NO_TOKENS = "labels no tokens"


def percent(share: float | None) -> str:
    """Format a share in percent: 0.8312 → "83.1", None → "–"."""
    return "–" if share is None else f"{100 * share:.1f}"


def floored(share: float) -> str:
    """Format a least probability, never rounded up: 0.99998 → "0.9999"."""
    return f"{math.floor(share * 10_000) / 10_000:.4f}"


def level(share: float) -> str:
    """Format a confidence level: 0.95 → "95%"."""
    return f"{100 * share:g}%"


def score_text(metric: str, score: float | None, unit: str = "") -> str:
    """Format a score of the primary metric: in percent, with the `unit`, or a number; of a loss, its negative."""
    if score is None or in_percent(metric):
        return percent(score) + (unit if score is not None else "")
    return f"{abs(score) if is_loss(metric) else score:.4g}"


def points(metric: str, difference: float) -> str:
    """Format a difference of two scores of the primary metric: "0.4 points"."""
    return score_text(metric, difference, " points")


def ends_of(metric: str, low: float, high: float) -> list[str]:
    """Format the ends of an interval of scores, the lower number first."""
    ends = [score_text(metric, end) for end in (low, high)]
    return ends[::-1] if is_loss(metric) else ends


def score_with_interval(metric: str, score: float, low: float, high: float) -> str:
    """Format a score with its interval: "83.1 [80.9, 85.2]"."""
    return f"{score_text(metric, score)} [{', '.join(ends_of(metric, low, high))}]"


def abbreviate(number: float) -> str:
    """Format a number with three significant digits: 1234567 → "1.23 M", 999999 → "1 M"."""
    number = float(f"{number:.3g}")  # rounded first: 999999 is "1 M", not "1000 k"
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g}"


def milliseconds(number: float | None) -> str:
    """Format milliseconds: 0.0312 → "0.031", 12.34 → "12.3", None (not measured) → "–"."""
    if number is None:
        return "–"
    return f"{number:.3f}" if number < 0.1 else f"{number:.2f}" if number < 10 else f"{number:.1f}"


def probability(p: float | None) -> str:
    """Format a p-value: "0.48", "0.031", "< 0.001"; None → "–"."""
    if p is None:
        return "–"
    if p < 0.001:
        return "< 0.001"
    return f"{p:.2f}" if p >= 0.1 else f"{p:.3f}"


def change(before: str, after: str) -> str:
    """Format a change: "6 → 4", or "6" if nothing changed."""
    return before if before == after else f"{before} → {after}"


def format_range(shares: Sequence[float]) -> str:
    """Format the range of several shares, "0.294 to 0.341", or a single share, "0.318"."""
    return change(f"{min(shares):.3f}", f"{max(shares):.3f}").replace(" → ", " to ")


def join_names(names: Sequence[str]) -> str:
    """Join names: "a", "a and b", "a, b and c"."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
