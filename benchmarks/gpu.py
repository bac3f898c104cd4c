"""Speed and memory on a GPU with synthetic texts: one table, and a results file named after the GPU.

    PYTHONPATH=src python -m benchmarks.gpu [FAMILY …] [--tiny] [--out FOLDER]

Needs torch, transformers, accelerate, NumPy and safetensors; epigram's other dependencies are not needed. --tiny makes
one small run of each family, also on the CPU, to check that it works; its results are stored only if --out is given.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import results
from benchmarks.table import table
from benchmarks.timing import ROOT, Plan, SkippedError, apart

FAMILIES = ("finetune", "attention", "small", "parallel")  # modules gpu_FAMILY, with rows(plan) and SETTINGS
OURS, PEERS = ("torch", "numpy", "safetensors"), ("torch", "transformers", "accelerate")
CORPUS = {"all": "synthetic"}


def measure(name: str, plan: Plan) -> results.Facts:
    """Run the benchmarks of one family and return their result rows and settings."""
    module = import_module(f"benchmarks.gpu_{name}")
    return {"rows": [row.record() for row in module.rows(plan)], "settings": module.SETTINGS}


def device_name() -> str:
    """Return the GPU's name, or "cpu"."""
    name: str = import_module("benchmarks.gpu_data").device_name()
    return name


def run(families: list[str], device: str, asked: argparse.Namespace) -> list[Any]:
    """Measure each family, in a separate process unless tiny, store its rows, and return all rows."""
    path, shared = results.file_of(device, asked.out or results.RESULTS), results.identity(device, CORPUS)
    why = results.mismatch(path, shared) if len(families) < len(FAMILIES) else None
    if why:
        print(f"not stored: {why}; run all families first", file=sys.stderr, flush=True)
    facts, rows = results.about(shared, OURS, PEERS), list[Any]()
    with TemporaryDirectory(prefix="epigram-gpu-") as scratch:
        for name in families:
            start = time.monotonic()
            try:
                plan = Plan(Path(scratch), asked.tiny)
                found = plan.apart(measure, name, plan)
            except SkippedError as reason:
                print(f"{name}: skipped: {reason}", file=sys.stderr, flush=True)
                continue
            found["seconds"] = round(time.monotonic() - start)
            print(f"{name}: {found['seconds']} s", file=sys.stderr, flush=True)
            rows += found["rows"]
            if why is None and (asked.out or not asked.tiny):
                results.store(path, facts, name, found, FAMILIES)
                print(f"written to {path}", file=sys.stderr)
    return rows


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description="Measure speed and memory on a GPU.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}; default: all")
    parser.add_argument("--tiny", action="store_true", help="one small run of each, on the CPU too")
    where = results.RESULTS.relative_to(ROOT)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=f"folder of the results; default: {where}")
    asked = parser.parse_args()
    if unknown := set(asked.families) - set(FAMILIES):
        parser.error(f"no such family: {', '.join(sorted(unknown))}; choose from {', '.join(FAMILIES)}")
    device = apart(device_name)
    if device == "cpu" and not asked.tiny:
        parser.error("there is no GPU here: --tiny runs a small version on the CPU")
    families = [name for name in FAMILIES if not asked.families or name in asked.families]
    print(table(run(families, device, asked)))


if __name__ == "__main__":
    main()
