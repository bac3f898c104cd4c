"""White space around a text is no part of it: readers of corpora take it off, and so does who asks a model."""

from __future__ import annotations

# what Unicode calls white space, as polars and the tokenizers library have it; str.strip takes four separators too
WHITE_SPACE = "".join(c for c in map(chr, range(0x3001)) if c.isspace() and not "\x1c" <= c <= "\x1f")


def bare(text: str) -> str:
    """`text` without white space around it."""
    return text.strip(WHITE_SPACE)


def indent(text: str) -> int:
    """How many characters of white space stand in front of `text`."""
    return len(text) - len(text.lstrip(WHITE_SPACE))
