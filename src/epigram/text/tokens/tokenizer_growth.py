"""Upper bound on how much a tokenizer lengthens a text before it splits it, derived from tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import ceil, prod
from typing import Any

from tokenizers import Tokenizer

MAX_GROWTH = 256  # published models lengthen a text by a factor of 4 at most
STEPS = ("normalizers", "pretokenizers")


def growth_bound(tokenizer: Tokenizer) -> int:
    """Return the upper bound: the product of the factors of all normalizer and pre-tokenizer steps."""
    parts = [part for part in (tokenizer.normalizer, tokenizer.pre_tokenizer) if part is not None]
    return prod(_factor(step) for part in parts for step in _steps(json.loads(part.__getstate__())))


def _steps(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normalizer or pre-tokenizer, including those of nested sequences."""
    inner = [step for key in STEPS for step in part.get(key) or ()]
    if not inner:
        yield part
    for step in inner:
        yield from _steps(step)


def _factor(step: dict[str, Any]) -> int:
    kind = step["type"]
    if kind == "Replace":
        replaced = step["pattern"].get("String") or ""  # a regex may match the empty string at every character
        content = len(step["content"])
        return max(1, ceil(content / len(replaced)) if replaced else 1 + content)
    if kind == "Prepend":
        return max(1, len(step["prepend"]))
    return 2 if kind == "ByteLevel" else 1
