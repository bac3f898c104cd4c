"""Removal of leading and trailing whitespace, as corpus readers and the predictor both do it."""

from __future__ import annotations

# Unicode whitespace, as in polars and tokenizers; str.strip would also remove U+001C to U+001F
WHITESPACE = "".join(c for c in map(chr, range(0x3001)) if c.isspace() and not "\x1c" <= c <= "\x1f")


def strip(text: str) -> str:
    """Strip leading and trailing whitespace from `text`."""
    return text.strip(WHITESPACE)


def leading_whitespace(text: str) -> int:
    """Return the number of leading whitespace characters of `text`."""
    return len(text) - len(text.lstrip(WHITESPACE))
