"""Coverage map: which tests execute which lines, one JSON file per test file in .epigram/mutation/map."""

from __future__ import annotations

import difflib
import hashlib
import json
import shutil
import time
from collections import defaultdict
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.mutation.forks import Job
from tests.mutation.mutants import ROOT
from tests.mutation.pool import Steps, trees, work
from tests.mutation.tree import Tree

STORE = ROOT / ".epigram" / "mutation"
MAPS, SOURCES = STORE / "map", STORE / "sources"
FOLDERS = ("unit", "parity", "contract", "scenarios", "resume", "fuzz", "pipeline", "mutation_tests")
# They need a server, a cluster or minutes, or they test no code in src, tasks or flows.
LEFT_OUT = {
    "tests/pipeline/test_cluster.py",
    "tests/pipeline/test_postgres.py",
    "tests/pipeline/test_serve.py",
    "tests/pipeline/test_sweep.py",
    "tests/unit/tools/test_drill.py",
    "tests/unit/tools/test_drill_faults.py",
    "tests/unit/tools/test_drill_plan.py",
    "tests/unit/tools/test_drill_shop.py",
    "tests/unit/tools/test_gpu_benchmark.py",
    "tests/unit/tools/test_mutation.py",
}
LIMIT = 3600.0  # seconds for a test file


def test_files() -> list[str]:
    """Return the test files of the map."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / "tests" / folder).rglob("test_*.py"))]
    return [name for path in found if (name := str(path.relative_to(ROOT))) not in LEFT_OUT]


def stale(names: list[str]) -> list[str]:
    """Return the files of `names` that are new or have changed since they were mapped."""
    return [name for name in names if not _map_of(name).exists() or _read(name)["digest"] != _digest(ROOT / name)]


def refresh(workers: int) -> None:
    """Map the test files that are new or have changed."""
    changed = stale(test_files())
    if changed:
        with trees(workers) as places:
            work((partial(_map, name) for name in changed), places)


def _map(name: str, tree: Tree) -> Steps:
    """Map one test file and print how long it took."""
    started = time.monotonic()
    code = yield _job(tree, name)
    print(f"mapped {name}: exit code {code}, {time.monotonic() - started:.0f} s", flush=True)


def _job(tree: Tree, name: str) -> Job:
    """Return a job that runs the test file `name` and writes its map."""
    folder = tree.work / "coverage"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    env = {"MUTATION_COVERAGE": str(folder), "MUTATION_CONTEXT": ""}
    MAPS.mkdir(parents=True, exist_ok=True)
    out = _map_of(name)
    return Job(lambda: _record(tree.root, name, folder, out), tree.root, out.with_suffix(".log"), LIMIT, env)


def _record(root: Path, name: str, folder: Path, out: Path) -> int:
    """Run the tests in the child, collect the executed lines of all processes, and write them."""
    import coverage
    import pytest
    from coverage import CoverageData

    from tests.mutation.plugins import OPTIONS, Contexts

    places = [str(root / part) for part in ("src", "tasks", "flows")]
    measured = coverage.Coverage(data_file=str(folder / "data"), data_suffix=True, source=places, config_file=False)
    measured.start()
    contexts = Contexts(measured)
    code = int(pytest.main([*OPTIONS, f"--basetemp={folder}/tmp", name], plugins=[contexts]))
    measured.stop()
    measured.save()
    lines: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for path in folder.glob("data.*"):
        data = CoverageData(str(path))
        data.read()
        for file in data.measured_files():
            for line, names in data.contexts_by_lineno(file).items():
                for context in names:
                    lines[str(Path(file).relative_to(root))][context].add(line)
    found = {file: {context: sorted(each) for context, each in by.items()} for file, by in lines.items()}
    record = {"digest": _digest(root / name), "code": code, "tests": contexts.tests, "lines": found}
    record["sources"] = {file: _keep(root / file) for file in found}
    out.write_text(json.dumps(record))
    return code


def _keep(path: Path) -> str:
    """Store a copy of the source file that was mapped; return its digest."""
    digest = _digest(path)
    SOURCES.mkdir(parents=True, exist_ok=True)
    (SOURCES / digest).write_bytes(path.read_bytes())
    return digest


class CoverageMap:
    """Maps of all test files, with the current line numbers.

    `seconds` contains the measured time of each test. `alone` contains the time of each test when it runs alone: in a
    full run, only the first test that uses a shared fixture waits for it.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.alone: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self.digests: dict[str, str] = {}
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.imported: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for name in test_files():
            if _map_of(name).exists():
                record = _read(name)
                self.digests[name] = record["digest"]
                self._add(record)

    def _add(self, record: dict[str, Any]) -> None:
        tests = record["tests"]
        passed = {test for test, each in tests.items() if each["outcome"] == "passed"}
        self.failed |= {test: each["outcome"] for test, each in tests.items() if test not in passed}
        shared = {context for by_context in record["lines"].values() for context in by_context}
        self.seconds |= {test: tests[test]["seconds"] for test in passed}
        users: dict[str, set[str]] = defaultdict(set)
        for test in passed:
            users[test].add(test)
            for fixture in {f"fixture {name}" for name in tests[test]["fixtures"]} & shared:
                users[fixture].add(test)
        for by in users.values():
            slowest = max(tests[test]["seconds"] for test in by)
            self.alone |= {test: max(self.alone.get(test, 0.0), slowest) for test in by}
        users[""] = passed
        for file, by_context in record["lines"].items():
            moved = _moved(record["sources"][file], file)
            for context, lines in by_context.items():
                table = self.lines if context else self.imported
                for line in lines:
                    if line in moved:
                        table[file][moved[line]] |= users[context]


@cache
def _moved(digest: str, file: str) -> dict[int, int]:
    """Return for each line of the stored file its current number."""
    old = (SOURCES / digest).read_text().splitlines()
    new = (ROOT / file).read_text().splitlines() if (ROOT / file).exists() else []
    return moved_lines(old, new)


def moved_lines(old: list[str], new: list[str]) -> dict[int, int]:
    """Return for each line of `old`, from 1, its number in `new`; a replaced line maps to its replacement."""
    found: dict[int, int] = {}
    for _, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        found |= {a + index + 1: min(c + index, d - 1) + 1 for index in range(b - a) if d > c}
    return found


def _map_of(name: str) -> Path:
    return MAPS / f"{name.removesuffix('.py').replace('/', '.')}.json"


def _read(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(_map_of(name).read_text())
    return record


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
