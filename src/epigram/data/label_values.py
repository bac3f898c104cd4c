"""Labels as files write them: numbers, several labels in one string, and lists."""

from __future__ import annotations

import ast
import json
import re
from contextlib import suppress
from functools import lru_cache
from typing import Any

import polars as pl

LISTS = "[]"  # label separator of strings such as ["a", "b"], ['a', 'b'] and {"choices": ["a", "b"]}
QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
MISSING = re.compile(r"\b(?:None|null|nan|NaN)\b")  # a list item without a label
CHOICES = re.compile(r"""\{\s*["']choices["']\s*:(.*)\}""", re.DOTALL)  # Label Studio
LIST_LIKE = re.compile(r"""\[.*\]|\{\s*["']choices["'].*\}""", re.DOTALL)


def split_labels(text: str, separator: str) -> list[str]:
    """Return the labels in a string, without surrounding spaces; empty ones are left out."""
    parts = _listed_labels(text.strip()) if separator == LISTS else text.split(separator)
    return [label for part in parts if (label := part.strip())]


@lru_cache(1 << 16)
def _listed_labels(text: str) -> tuple[str, ...]:
    """Return the labels in a list; a text that is no list is one label.

    Parts in quotation marks are the labels, with or without commas between them, as numpy writes them.
    """
    inner = CHOICES.sub(r"\1", text).strip()
    if not (inner.startswith("[") and inner.endswith("]")):
        return (text,)
    parts, rest = QUOTED.findall(inner), MISSING.sub("", QUOTED.sub("", inner[1:-1])).strip(" ,\t\r\n")
    if not parts:
        return tuple(part for part in inner[1:-1].split(",") if not MISSING.fullmatch(part.strip()))
    with suppress(ValueError, SyntaxError):
        if not rest:
            return tuple(map(_unquote, parts))
    return (text,)


def _unquote(part: str) -> str:
    with suppress(ValueError):
        return str(json.loads(part))
    return str(ast.literal_eval(part))


def label_text(value: Any) -> str:
    """Return the label for a JSON value; 1.0 is the label 1."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_labels(column: pl.Expr, dtype: Any) -> pl.Expr:
    """Return a column of labels of the type `dtype` as strings: 1.0 is the label 1, and NaN is missing."""
    if dtype.is_float():
        whole = column.cast(pl.Int64, strict=False)  # missing if it does not fit
        return pl.coalesce(pl.when(whole == column).then(whole.cast(pl.String)), column.fill_nan(None).cast(pl.String))
    text = column.cast(pl.String)
    return text.str.replace(r"\.0+$", "") if dtype.is_decimal() else text
