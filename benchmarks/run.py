"""Run the benchmarks, print one table, write benchmarks/results/MACHINE.json.

    python -m benchmarks.run [FAMILY …] [--tiny]       # make bench: rates
    python -m benchmarks.run --accuracy [FAMILY …]     # make bench-accuracy: accuracy after equal epochs

If families are named, only these are measured; they are stored only next to results of the same commit and corpus.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import corpora, gpu, results
from benchmarks.table import accuracy_table, table
from benchmarks.timing import Plan, SkippedError

FAMILIES = (  # modules of this package, with rows(plan) and SETTINGS
    "data_stages",
    "batches",
    "training",
    "finetune",
    "fasttext",
    "layers",
    "inference",
    "export",
    "serving",
    "pruning",
    "start_up",
    "pipeline",
)
COMPARED = ("training", "finetune", "fasttext", "export", "pruning")  # families with accuracy: see equal_epochs
ORDER = (*FAMILIES, *(f"{name} accuracy" for name in COMPARED))
MINUTES = {False: 25, True: 20}  # of rates, of accuracies; on two idle cores with bfloat16


def measure(name: str, plan: Plan) -> results.Facts:
    """Run the benchmarks of one family and return their result rows and settings."""
    module = import_module(f"benchmarks.{name}")
    rows = [row.record() for row in module.rows(plan)]
    return {"rows": rows, "settings": with_threads(module.SETTINGS)}


def compare(name: str, plan: Plan) -> results.Facts:
    """Return the accuracy comparisons that belong to the rates of one family."""
    module = import_module("benchmarks.equal_epochs")
    return {"accuracy": module.FAMILIES[name](plan), "settings": module.SETTINGS[name]}


def with_threads(settings: results.Facts) -> results.Facts:
    """Return `settings` with PyTorch's actual number of threads as `threads`."""
    if "threads" not in settings:
        return settings
    import torch

    return {**settings, "threads": torch.get_num_threads()}


def expected(path: Path, names: Sequence[str], *, accuracy: bool) -> str:
    """Return how long the families will take: as in the last run on this machine, if known for all of them."""
    seconds = (results.load(path) or {}).get("seconds", {})
    if all(name in seconds for name in names):
        return f"about {sum(seconds[name] for name in names) / 60:.0f} minutes, as the last time on this machine"
    return f"all families take about {MINUTES[accuracy]} minutes on two quiet cores with bfloat16, longer elsewhere"


def announce(path: Path, shared: results.Facts, names: Sequence[str], asked: argparse.Namespace) -> bool:
    """Print what to expect before measuring, and return whether the results will be stored."""
    stored = [f"{name} accuracy" if asked.accuracy else name for name in names]
    print(f"{shared['machine']}, commit {shared['commit']}", file=sys.stderr)
    if not corpora.MIRROR:
        print(corpora.NO_MIRROR, file=sys.stderr)
    if asked.tiny:
        return False
    print(expected(path, stored, accuracy=asked.accuracy), file=sys.stderr, flush=True)
    partial = asked.accuracy or bool(asked.families)
    why = results.mismatch(path, shared) if partial else None
    if why:
        print(f"not stored: {why}; run make bench first for all rates of one commit", file=sys.stderr, flush=True)
    return why is None


def run(names: Sequence[str], asked: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    """Measure each family, in a separate process unless tiny; return the rows and the accuracy comparisons."""
    machine = results.machine()
    path, shared = results.file_of(machine), results.identity(machine, corpora.names())
    store = announce(path, shared, names, asked)
    facts, rows, accuracy = results.about(shared), list[Any](), list[Any]()
    with TemporaryDirectory(prefix="epigram-bench-") as scratch:
        for name in names:
            start = time.monotonic()
            try:
                plan, work = Plan(Path(scratch), asked.tiny), compare if asked.accuracy else measure
                found = plan.apart(work, name, plan)
            except SkippedError as why:
                print(f"{name}: skipped: {why}", file=sys.stderr, flush=True)
                continue
            found["seconds"] = round(time.monotonic() - start)
            print(f"{name}: {found['seconds']} s", file=sys.stderr, flush=True)
            rows += found.get("rows", [])
            accuracy += found.get("accuracy", [])
            if store:
                results.store(path, facts, f"{name} accuracy" if asked.accuracy else name, found, ORDER)
    if store and (all_of := results.load(path)):
        return (all_of["rows"] if asked.accuracy else rows), all_of["accuracy"]
    return rows, accuracy


def gpu_lines(device: str) -> str:
    """Return a line for each family of GPU benchmarks, which `python -m benchmarks.gpu` measures on a GPU."""
    why = "no GPU" if device == "cpu" else "run python -m benchmarks.gpu"
    return "\n".join(f"GPU, {family}: not measured ({why})" for family in gpu.FAMILIES)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description="Measure speed and memory, or accuracy after equal epochs.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}; default: all")
    parser.add_argument("--tiny", action="store_true", help="one small run of each, to check that it works; not stored")
    parser.add_argument("--accuracy", action="store_true", help=f"accuracy of {', '.join(COMPARED)} after equal epochs")
    asked = parser.parse_args()
    known = COMPARED if asked.accuracy else FAMILIES
    if unknown := set(asked.families) - set(known):
        parser.error(f"no such family: {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    rows, accuracy = run([name for name in known if not asked.families or name in asked.families], asked)
    if accuracy:
        print(accuracy_table(accuracy))
    if rows:
        print(table(rows, accuracy))
        print(gpu_lines(gpu.device_name()))


if __name__ == "__main__":
    main()
