"""Tests that the GPU benchmark runs completely on the CPU, with only the packages of a bare GPU machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import gpu_finetune

ROOT = Path(__file__).parents[3]
ABSENT = "dvc jieba jinja2 onnx onnxruntime pandera polars prefect pydantic rich ruamel seqeval sklearn typer"

# Python processes that load this sitecustomize module treat the packages in ABSENT as not installed.
SITE = f"""
import sys
from importlib.machinery import PathFinder


class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {set(ABSENT.split())} else super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Bare
"""


def bare(folder: Path, *program: str) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(SITE)
    path = os.pathsep.join(map(str, (folder, ROOT / "src", ROOT)))
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *program]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=500)


@pytest.mark.slow
@pytest.mark.extended
def test_every_family_runs_on_a_bare_machine(tmp_path: Path) -> None:
    done = bare(tmp_path, "-m", "benchmarks.gpu", "--tiny", "--out", "results")
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "results/cpu.json").read_text())
    assert {row["family"] for row in told["rows"]} == {"finetune", "attention", "small", "parallel"}
    tuned = {(row["work"], row["reach"]): len(row["peers"]) for row in told["rows"] if row["family"] == "finetune"}
    assert [count for (_, reach), count in tuned.items() if reach == "≥ 3 ×"] == [len(gpu_finetune.peers(4))] * 2
    shares = {work.partition(", FLOPs")[0]: reach for work, reach in tuned if "FLOPs" in work}
    assert shares == {"BERT base, texts of 16 to 32 tokens": "≥ 40", "BERT base, texts of 64 to 128 tokens": "≥ 50"}
    assert all(row["ours"] > 0 for row in told["rows"] if "first captured" not in row["work"])
    table = done.stdout.splitlines()
    assert len(table) == 1 + sum(1 + len(row["peers"]) for row in told["rows"])
    assert (told["machine"], told["corpus"]) == ("cpu", {"all": "synthetic"})
