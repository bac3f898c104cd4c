"""Tests of the threads of libraries: they are limited before a library is imported, and the user's own values stay."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from epigram.process.startup import DEFAULTS

PRINT = 'print(os.environ["GOMP_SPINCOUNT"], os.environ["OPENBLAS_NUM_THREADS"], "numpy" in sys.modules, flush=True)'
STAGE = f"""
import os, sys
from epigram.process.stage_process import run_stage
run_stage(lambda: {PRINT})
"""
COMMAND = f"""
import os, sys
from epigram.cli import app
app.app = lambda *_: {PRINT}
sys.argv[:] = ["epigram", "predict"]
app.start()
"""


@pytest.mark.parametrize("code", [STAGE, COMMAND], ids=["stage", "command"])
@pytest.mark.parametrize("own", [{}, {"GOMP_SPINCOUNT": "77"}, {"OPENBLAS_NUM_THREADS": "4"}])
def test_libraries_wait_actively_for_a_short_time_and_use_one_blas_thread_unless_the_user_says_otherwise(
    code: str, own: dict[str, str]
) -> None:
    env = {name: value for name, value in os.environ.items() if name not in DEFAULTS} | own
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    spins, threads = own.get("GOMP_SPINCOUNT", "1000"), own.get("OPENBLAS_NUM_THREADS", "1")
    assert done.stdout.split() == [spins, threads, "False"], done.stderr


@pytest.mark.parametrize("own", [{}, {"GOMP_SPINCOUNT": "77"}])
@pytest.mark.parametrize("use", ["epigram.fit", "epigram.load"])
def test_the_python_api_limits_waiting_before_pytorch_is_imported_and_leaves_numpy_its_threads(
    use: str, own: dict[str, str]
) -> None:
    seen = 'print(os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OPENBLAS_NUM_THREADS"), flush=True), os._exit(0)'
    code = f"""
import os, sys
import epigram
class Torch:
    def find_spec(self, name, path, target=None):
        if name == "torch":
            {seen}
sys.meta_path.insert(0, Torch())
{use if use == "epigram.fit" else use + "('model')"}
"""
    env = {name: value for name, value in os.environ.items() if name not in DEFAULTS} | own
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [own.get("GOMP_SPINCOUNT", "1000"), "None"], done.stderr


def test_openblas_reads_the_number_of_threads() -> None:
    code = (
        "from epigram.process.startup import limit_library_threads; limit_library_threads()\n"
        "import numpy, scipy.linalg, threadpoolctl\n"
        "print({one['num_threads'] for one in threadpoolctl.threadpool_info() if one['internal_api'] == 'openblas'})"
    )
    env = {name: value for name, value in os.environ.items() if name not in DEFAULTS}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{1}"
