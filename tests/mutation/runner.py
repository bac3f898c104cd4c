"""Test runs of mutants, and their results: one line of JSON per mutant."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tests.mutation.choice import Batch, batches, covering, file_of
from tests.mutation.coverage_map import STORE, CoverageMap
from tests.mutation.forks import BROKEN, LATE, Job
from tests.mutation.mutants import Mutant
from tests.mutation.pool import Steps, trees, work
from tests.mutation.tree import Tree

RESULTS = STORE / "results.jsonl"
GRACE = 60.0  # seconds for the start of a child and for the shared setup of test files
PASSED = {0, 5}  # pytest's exit codes: no test failed, or no test exists any more

Outcome = dict[str, Any]


def results() -> dict[str, Outcome]:
    """Return the last result of every mutant."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {record["id"]: record for record in map(json.loads, lines)}


def run(mutants: Iterable[Mutant], workers: int, known: dict[str, Outcome]) -> None:
    """Run the tests of each mutant; append each result as soon as it is known.

    For a mutant that survived according to `known`, only the tests in files that have changed since then are run.
    """
    runner = Runner(known)
    with trees(workers) as places:
        work((partial(runner.examine, mutant) for mutant in mutants), places)


class Runner:
    """State that all mutants of a run share: the coverage map, and which tests are reliable."""

    def __init__(self, known: dict[str, Outcome]) -> None:
        self.known, self.map = known, CoverageMap()
        self.flaky: set[str] = set()
        self.reliable: set[str] = set()
        for test, outcome in self.map.failed.items():
            print(f"left out, {outcome} without a mutant: {test}", flush=True)

    def examine(self, mutant: Mutant, tree: Tree) -> Steps:
        """Run batches until a test fails. A test that also fails without the mutant is excluded from then on.

        If a batch exceeds the time limit also without the mutant, the status is "error": the machine is too busy.
        """
        started = time.monotonic()
        passed = self._passed_before(mutant)
        while True:
            tests = covering(mutant, self.map, self.flaky)
            outcome = yield from self._first_failure(mutant, tree, tests, passed)
            test, late = outcome.get("by", ""), outcome.pop("late", [])
            if late and (yield self._job(tree, late)) == LATE:
                outcome = {"status": "error", "reason": "time limit without the mutant too"}
            if test not in self.map.seconds or test in self.reliable:
                break
            if (yield self._job(tree, [test])) in PASSED:
                self.reliable.add(test)
                break
            print(f"left out, failed without a mutant: {test}", flush=True)
            self.flaky.add(test)
        files = {file: self.map.digests[file] for file in sorted(map(file_of, tests))}
        outcome |= {"tests": len(tests), "seconds": round(time.monotonic() - started, 1)}
        self._write(mutant, outcome if outcome["status"] == "killed" else outcome | {"files": files})

    def _passed_before(self, mutant: Mutant) -> set[str]:
        """Return the tests that the mutant passed in an earlier run, in files that have not changed."""
        before = self.known.get(mutant.id, {})
        files = before.get("files", {}) if before.get("status") == "survived" else {}
        return {test for test in self.map.seconds if files.get(file_of(test)) == self.map.digests[file_of(test)]}

    def _first_failure(
        self, mutant: Mutant, tree: Tree, tests: set[str], passed: set[str]
    ) -> Generator[Job, int, Outcome]:
        """Run the tests that have not passed yet, and add those that pass to `passed`."""
        with tree.applied(mutant):
            for batch in batches(tests - passed, self.map.alone):
                code = yield self._job(tree, batch)
                if code == BROKEN:
                    return {"status": "error", "reason": f"the tests did not run: see {_log(tree)}"}
                if code == LATE:
                    return {"status": "killed", "reason": "time limit", "late": batch}
                if code not in PASSED:
                    return {"status": "killed"} | _failure(tree, code)
                passed.update(batch)
        return {"status": "survived" if tests else "not covered"}

    def _job(self, tree: Tree, batch: Batch) -> Job:
        """Return a job that runs the tests of `batch` until the first failure."""
        limit = GRACE + 3 * (
            sum(self.map.seconds[test] for test in batch) + max(self.map.alone[test] for test in batch)
        )
        _note(tree).unlink(missing_ok=True)
        return Job(lambda: _run_tests(batch, _note(tree)), tree.root, _log(tree), limit, {})

    def _write(self, mutant: Mutant, outcome: Outcome) -> None:
        place: Outcome = {"id": mutant.id, "origin": mutant.origin, "package": mutant.package}
        place |= {"file": mutant.file, "line": mutant.line, "effect": mutant.effect}
        with RESULTS.open("a") as file:
            file.write(json.dumps(place | outcome, ensure_ascii=False) + "\n")
        print(f"{outcome['status']:<12}{mutant.id}  {outcome.get('by', '')}", flush=True)


def _run_tests(batch: Batch, note: Path) -> int:
    """Run the tests in the child."""
    import pytest

    from tests.mutation.plugins import OPTIONS, FirstFailure

    chosen = FirstFailure({test: rank for rank, test in enumerate(batch)}, note)
    files = dict.fromkeys(file_of(test) for test in batch)
    return int(pytest.main([*OPTIONS, "-x", f"--basetemp={note.parent}/tmp", *files], plugins=[chosen]))


def _failure(tree: Tree, code: int) -> Outcome:
    """Return which test failed, and why."""
    if not _note(tree).exists():
        return {"reason": f"exit code {code}"}
    noted = json.loads(_note(tree).read_text())
    return {"by": noted["test"], "reason": noted["reason"]}


def _note(tree: Tree) -> Path:
    return tree.work / "failure.json"


def _log(tree: Tree) -> Path:
    return tree.work / "log"
