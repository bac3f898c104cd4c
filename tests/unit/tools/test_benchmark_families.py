"""Every family of benchmarks runs completely with --tiny; a family that cannot run here says what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.run import FAMILIES

ROOT = Path(__file__).parents[3]
OTHERS = ("scale", "pos_growth", "few_labels", "few_rows", "many_titles")  # programs of their own


def tiny(*program: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark without the mirror of real data sets."""
    env = {name: value for name, value in os.environ.items() if name != "EPIGRAM_MIRROR"}
    command = [sys.executable, "-m", *program, "--tiny"]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=1800)


@pytest.mark.extended
def test_every_family_runs_or_names_what_it_needs() -> None:
    done = tiny("benchmarks.run")
    assert done.returncode == 0, done.stderr
    told = {line.partition(":")[0]: line for line in done.stderr.splitlines()}
    assert told.keys() >= set(FAMILIES)
    assert all("skipped" in told[name] or told[name].endswith(" s") for name in FAMILIES)
    skipped = {name for name in FAMILIES if "skipped" in told[name]}
    assert skipped <= {"finetune", "fasttext", "inference", "export", "pruning"}, done.stderr


@pytest.mark.extended
@pytest.mark.parametrize("name", OTHERS)
def test_every_other_benchmark_runs(name: str) -> None:
    done = tiny(f"benchmarks.{name}")
    assert done.returncode == 0, done.stderr
    assert done.stdout
