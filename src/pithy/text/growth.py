"""How much longer a tokenizer can make a text before it splits it: a bound, from its own description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import ceil, prod
from typing import Any

from tokenizers import Tokenizer

LARGEST = 256  # those of published models grow a text by 4 at most
STEPS = ("normalizers", "pretokenizers")


def growth(tokenizer: Tokenizer) -> int:
    """The bound: that of each step times that of the next."""
    parts = [part for part in (tokenizer.normalizer, tokenizer.pre_tokenizer) if part is not None]
    return prod(_factor(step) for part in parts for step in _steps(json.loads(part.__getstate__())))


def _steps(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The steps of a sequence, of sequences in it too."""
    inner = [step for key in STEPS for step in part.get(key) or ()]
    if not inner:
        yield part
    for step in inner:
        yield from _steps(step)


def _factor(step: dict[str, Any]) -> int:
    kind = step["type"]
    if kind == "Replace":
        found = step["pattern"].get("String") or ""  # an expression may match nothing at every character
        content = len(step["content"])
        return max(1, ceil(content / len(found)) if found else 1 + content)
    if kind == "Prepend":
        return max(1, len(step["prepend"]))
    return 2 if kind == "ByteLevel" else 1
