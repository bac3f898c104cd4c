"""Tests that a stage starts its supervisor before it loads a library, and that importing a stage starts nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
STAGES = sorted(path.stem for path in (ROOT / "src/epigram/stages").glob("*.py") if path.stem != "__init__")
LIBRARIES = [
    "jieba",
    "numpy",
    "pandera",
    "polars",
    "pydantic",
    "scipy",
    "sklearn",
    "tokenizers",
    "torch",
    "transformers",
]
PROGRAM = f"""
import importlib, os, sys
os.fork = None
for stage in {STAGES}:
    importlib.import_module(f"epigram.stages.{{stage}}")
print([name for name in {LIBRARIES} if name in sys.modules])
"""


def test_importing_every_stage_loads_no_library_and_forks_nothing() -> None:
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env={"DVC_STAGE": "x", **_path()})
    assert (ended.stdout, ended.stderr) == ("[]\n", "")


def test_every_stage_is_run_by_run_stage() -> None:
    for stage in STAGES:
        text = (ROOT / f"src/epigram/stages/{stage}.py").read_text(encoding="utf-8")
        assert text.endswith('\n\nif __name__ == "__main__":\n    run_stage(main)\n'), stage


def _path() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT / "src")}
