"""Interrupted stages that start again in the same precision, and then in another one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from epigram.models import precision


def discards(
    start: Callable[[], object],
    ended: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[bool]:
    """Start a stage that is interrupted, and then raises `ended`, on CPUs without, without and with fast bfloat16.

    Return whether each start discards the resume state of the one before.
    """
    said = []
    for fast in (False, False, True):
        monkeypatch.setattr(precision, "has_fast_bf16", lambda _, fast=fast: fast)
        with pytest.raises(ended):
            start()
        said.append("resume state discarded" in capsys.readouterr().out)
    return said
