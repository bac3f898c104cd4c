"""Speed and memory on a GPU, from synthetic texts: one table, and results named by the card.

    PYTHONPATH=src python -m benchmarks.gpu [FAMILY …] [--tiny] [--out FOLDER]

Needs torch, transformers, accelerate, NumPy and safetensors, and nothing else that pithy depends on. --tiny makes one
small run of each, on the CPU too, to see that it works; it is stored only where --out is given.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from importlib import import_module, metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.run import RESULTS, file_of, table
from benchmarks.timing import ROOT, Plan, Row, SkippedError, apart

FAMILIES = ("finetune", "attention", "small", "parallel")  # modules gpu_FAMILY here, with rows(plan)
VERSIONS = ("torch", "transformers", "accelerate")


def measure(name: str, plan: Plan) -> list[Row]:
    """The rows of one family."""
    rows: list[Row] = import_module(f"benchmarks.gpu_{name}").rows(plan)
    return rows


def device_name() -> str:
    """The card's name."""
    name: str = import_module("benchmarks.gpu_data").device_name()
    return name


def records_of(families: list[str], *, tiny: bool) -> list[dict[str, Any]]:
    """The rows of `families`, each measured in a process of its own."""
    found: list[dict[str, Any]] = []
    with TemporaryDirectory(prefix="pithy-gpu-") as scratch:
        for name in families:
            start = time.monotonic()
            try:
                rows = apart(measure, name, Plan(Path(scratch), tiny))
            except SkippedError as why:
                print(f"{name}: skipped: {why}", file=sys.stderr, flush=True)
                continue
            print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
            found += [{"family": name, **row.record()} for row in rows]
    return found


def store(folder: Path, device: str, records: list[dict[str, Any]]) -> Path:
    """Put the records in the place of those of the same families in the card's file."""
    path = folder / file_of(device).name
    measured = {record["family"] for record in records}
    old = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    kept = [row for row in old if row["family"] in FAMILIES and row["family"] not in measured]
    ordered = sorted(kept + records, key=lambda row: FAMILIES.index(row["family"]))
    about = {
        "machine": device,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in VERSIONS},
    }
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**about, "rows": ordered}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return path


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description="Measure speed and memory on a GPU.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}; all where absent")
    parser.add_argument("--tiny", action="store_true", help="one small run of each, on the CPU too")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=f"where results go; {RESULTS.relative_to(ROOT)}")
    asked = parser.parse_args()
    if unknown := set(asked.families) - set(FAMILIES):
        parser.error(f"no such family: {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    device = apart(device_name)
    if device == "cpu" and not asked.tiny:
        parser.error("there is no GPU here: --tiny shows on the CPU that all works")
    records = records_of([name for name in FAMILIES if not asked.families or name in asked.families], tiny=asked.tiny)
    print(table(records))
    if asked.out or not asked.tiny:
        print(f"written to {store(asked.out or RESULTS, device, records)}", file=sys.stderr)


if __name__ == "__main__":
    main()
