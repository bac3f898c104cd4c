"""Results files: one per machine, with all rows of one commit and one corpus, and the versions and settings used."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.timing import ROOT, cores

RESULTS = Path(__file__).parent / "results"
INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16", "avx512f": "AVX-512", "avx2": "AVX2"}  # best first
CODE = ("src", "flows", "tasks", "benchmarks/*.py", "params.yaml", "dvc.yaml", "requirements.lock", "data/sources")
OURS = ("torch", "numpy", "tokenizers", "transformers", "scikit-learn", "polars", "dvc", "prefect", "onnxruntime")
PEERS = ("torch", "transformers", "accelerate", "fasttext-wheel", "onnxruntime", "openvino")
SHARED = ("machine", "commit", "corpus")  # equal for all rows of a file
Facts = dict[str, Any]


def machine() -> str:
    """Return the processor, its widest matrix instructions and its cores, without the host name."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    model = re.search(r"model name\s*: (.+)", text)
    widest = next((name for flag, name in INSTRUCTIONS.items() if flag in text.split()), None)
    parts = [model[1] if model else platform.machine(), widest, f"{cores()} cores"]
    return ", ".join(part for part in parts if part)


def file_of(machine: str, folder: Path = RESULTS) -> Path:
    """Return the path of a machine's results file."""
    return folder / f"{re.sub(r'[^a-z0-9]+', '-', machine.lower()).strip('-')}.json"


def commit(root: Path = ROOT) -> str | None:
    """Return the last commit that changed the measured code, with "-dirty" if files differ; None outside of git.

    Commits that change only documents or results do not count.
    """
    last = _git(root, "log", "-1", "--format=%H", "--", *CODE)
    return f"{last}-dirty" if last and _git(root, "status", "--porcelain", "--", *CODE) else last


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=True, encoding="utf-8")
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None


def identity(machine: str, corpus: Mapping[str, Any]) -> Facts:
    """Return what all rows of a file share."""
    return {"machine": machine, "commit": commit(), "corpus": dict(corpus)}


def about(shared: Facts, ours: Sequence[str] = OURS, peers: Sequence[str] = PEERS) -> Facts:
    """Return what all rows of a file share, the date, the load average and the versions on both sides."""
    return {
        **shared,
        "date": datetime.now(UTC).date().isoformat(),
        "load_average": round(os.getloadavg()[0], 1),
        "versions": {"ours": versions(ours), "peers": versions(peers)},
    }


def versions(names: Sequence[str]) -> dict[str, str]:
    """Return the versions of Python and of the packages `names` that are installed."""
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def load(path: Path) -> Facts | None:
    """Return the content of a results file; None if it does not exist."""
    facts: Facts | None = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return facts


def mismatch(path: Path, shared: Mapping[str, Any]) -> str | None:
    """Return why new rows may not be stored next to those in the file at `path`; None if they may."""
    old = load(path)
    for name, value in shared.items():
        if old is not None and old.get(name) != value:
            return f"{path.name} holds results of {name} {_shown(old.get(name))}, and this is {_shown(value)}"
    return None


def _shown(value: Any) -> str:
    return ", ".join(map(str, value.values())) if isinstance(value, dict) else str(value)[:18]


def store(path: Path, facts: Facts, family: str, found: Facts, order: Sequence[str]) -> None:
    """Replace one family's entries in the file at `path`; rows of another machine, commit or corpus are dropped.

    `found` has the family's rows or its accuracy comparisons, its settings and its duration (s).
    """
    old = load(path) or {}
    if any(old.get(name) != facts[name] for name in SHARED):
        old = {}
    lists = {
        key: [*(entry for entry in old.get(key, []) if entry["family"] != family), *_of(family, found.get(key, []))]
        for key in ("rows", "accuracy")
    }
    for entries in lists.values():
        entries.sort(key=lambda entry: order.index(entry["family"]))
    named = {key: {**old.get(key, {}), family: found[key]} for key in ("settings", "seconds")}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**facts, **named, **lists}, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def _of(family: str, entries: Sequence[Facts]) -> list[Facts]:
    return [{"family": family, **entry} for entry in entries]
