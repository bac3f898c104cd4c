"""Tests of the limit of active waiting: it is set before PyTorch is imported, and a value of the user's own stays."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

STAGE = """
import os, sys
from epigram.core.stage_process import run_stage
run_stage(lambda: print(os.environ["GOMP_SPINCOUNT"], "torch" in sys.modules, flush=True))
"""
COMMAND = """
import os, sys
from epigram.cli import app
app.app = lambda *_: print(os.environ["GOMP_SPINCOUNT"], "torch" in sys.modules, flush=True)
app.start("predict")
"""


@pytest.mark.parametrize("code", [STAGE, COMMAND], ids=["stage", "command"])
@pytest.mark.parametrize("own", [None, "77"])
def test_threads_wait_actively_for_a_short_time_unless_the_user_says_otherwise(code: str, own: str | None) -> None:
    env = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    env |= {} if own is None else {"GOMP_SPINCOUNT": own}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [own or "1000", "False"], done.stderr
