"""Run the benchmarks, print one table, write benchmarks/results/MACHINE.json.

python -m benchmarks.run [FAMILY …] [--tiny]

With families named, only their rows are measured anew. PITHY_MIRROR names the folder of the real data sets.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from importlib import import_module, metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.timing import Plan, Row, SkippedError, apart

FAMILIES = (  # modules here, with rows(plan)
    "data_stages",
    "batches",
    "training",
    "finetune",
    "fasttext",
    "layers",
    "inference",
    "export",
    "pruning",
    "start_up",
    "pipeline",
)
INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16", "avx512f": "AVX-512", "avx2": "AVX2"}  # best first
RESULTS = Path(__file__).parent / "results"


def measure(name: str, plan: Plan) -> list[Row]:
    """The rows of one family."""
    rows: list[Row] = import_module(f"benchmarks.{name}").rows(plan)
    return rows


def machine() -> str:
    """Processor, the widest instructions that it has for products, and cores; no host name."""
    info = Path("/proc/cpuinfo")
    said = info.read_text() if info.exists() else ""
    model = re.search(r"model name\s*: (.+)", said)
    widest = next((name for flag, name in INSTRUCTIONS.items() if flag in said.split()), None)
    parts = [model[1] if model else platform.machine(), widest, f"{len(os.sched_getaffinity(0))} cores"]
    return ", ".join(part for part in parts if part)


def file_of(machine: str) -> Path:
    """Where the results of a machine are kept."""
    return RESULTS / f"{re.sub(r'[^a-z0-9]+', '-', machine.lower()).strip('-')}.json"


def store(name: str, rows: list[Row]) -> None:
    """Put the rows of one family in the place of those that the machine's file holds."""
    path = file_of(machine())
    old = json.loads(path.read_text())["rows"] if path.exists() else []
    new = [{"family": name, **row.record()} for row in rows]
    kept = [row for row in old if row["family"] in FAMILIES and row["family"] != name]
    load = {"load_average": round(os.getloadavg()[0], 1)}
    about = {"machine": machine(), "python": platform.python_version(), "torch": metadata.version("torch"), **load}
    ordered = sorted(kept + new, key=lambda row: FAMILIES.index(row["family"]))
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**about, "rows": ordered}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def table(records: list[dict[str, Any]]) -> str:
    """The rows under one another: medians, in brackets the range; the limit is a share of what the machine can do."""
    head = ("work", "unit", "ours", "peer", "ratio", "limit", "reach", "reached")
    lines = [head, *(_cells(record) for record in records)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _cells(record: dict[str, Any]) -> tuple[str, ...]:
    def shown(key: str) -> str:
        if record[key] is None:
            return "–"
        low, high = record[f"{key}_range"]
        return f"{record[key]:,g} [{low:,g}, {high:,g}]"

    ratio = f"{record['ratio']:.2f}" if record["ratio"] is not None else "–"
    limit = f"{record['limit']:.0%}" if record["limit"] is not None else "–"
    reached = {True: "yes", False: "NO", None: "–"}[record["reached"]]
    return record["work"], record["unit"], shown("ours"), shown("peer"), ratio, limit, record["reach"] or "–", reached


def main() -> None:
    """Measure each family in a process of its own."""
    parser = argparse.ArgumentParser(description="Measure speed and memory.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}; all where absent")
    parser.add_argument("--tiny", action="store_true", help="one small run of each, to see that it works; not stored")
    asked = parser.parse_args()
    if unknown := set(asked.families) - set(FAMILIES):
        parser.error(f"no such family: {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    records = []
    with TemporaryDirectory(prefix="pithy-bench-") as scratch:
        for name in [f for f in FAMILIES if not asked.families or f in asked.families]:
            start = time.monotonic()
            try:
                rows = apart(measure, name, Plan(Path(scratch), asked.tiny))
            except SkippedError as why:
                print(f"{name}: skipped: {why}", file=sys.stderr, flush=True)
                continue
            print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
            records += [row.record() for row in rows]
            if not asked.tiny:
                store(name, rows)
    print(table(records))


if __name__ == "__main__":
    main()
