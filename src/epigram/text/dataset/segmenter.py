"""jieba without log output, with its cache in a folder that only the user can write.

jieba loads its cache as Python objects, so a cache from another user must not be trusted.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def user_cache() -> Path:
    """Return the folder, which only the user can read; it does not exist if it cannot be created."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "epigram"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


Segmenter = Callable[[str], Iterable[str]]


def jieba() -> Any:
    """Return the jieba package with its taggers imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba's regular expressions raise warnings in current Python
        import jieba as package
        import jieba.posseg
    package.setLogLevel(logging.CRITICAL)  # without a usable cache jieba works, but logs a traceback
    package.dt.tmp_dir = str(user_cache())  # loading without a cache takes one second longer
    return package


def tokenizer_with(words: Mapping[str, int]) -> Any:
    """Return a tokenizer of jieba that also knows `words`, with their frequencies; jieba's own one does not change."""
    package = jieba()
    if not words:
        return package.dt
    package.dt.initialize()
    tokenizer = package.Tokenizer()
    tokenizer.FREQ, tokenizer.total, tokenizer.initialized = dict(package.dt.FREQ), package.dt.total, True
    for word, frequency in words.items():
        tokenizer.add_word(word, frequency)
    return tokenizer


def frequencies_of(words: Iterable[str]) -> dict[str, int]:
    """Return the least frequency with which jieba does not split a word, for each of `words` that it lacks."""
    tokenizer = jieba().dt
    tokenizer.initialize()
    return {word: int(tokenizer.suggest_freq(word)) for word in words if not tokenizer.FREQ.get(word)}
