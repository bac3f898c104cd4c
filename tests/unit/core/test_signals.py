"""Tests of signals that are deferred."""

from __future__ import annotations

import os
import signal

import pytest

from epigram.core.signals import Terminated, defer_signals


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_waits_for_the_end_of_the_block_and_is_raised_there(
    number: signal.Signals, kind: type[BaseException]
) -> None:
    seen = []
    with pytest.raises(kind), defer_signals() as waits:
        seen.append(waits())
        os.kill(os.getpid(), number)
        seen.append(waits())
    assert seen == [0, number]
