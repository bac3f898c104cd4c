"""Selection of the tests that a mutant must pass, in batches, fastest first."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from statistics import fmean

from tests.mutation.coverage_map import CoverageMap
from tests.mutation.mutants import ROOT, Mutant
from tests.mutation.source import Source

FIRST = 40  # tests in the first batch, from a few files, because each file has to be imported
FIRST_FILES = 6
BATCH_SECONDS = 90.0

Batch = list[str]


def covering(mutant: Mutant, found: CoverageMap, flaky: set[str]) -> set[str]:
    """Return the tests that execute the changed statement, without `flaky` ones.

    A statement outside of functions runs at import. For such a statement, these are the tests that execute a function
    of the file, or of a file that imports it.
    """
    if mutant.function:
        tables = (found.lines[mutant.file], found.imported[mutant.file])
        tests = {test for table in tables for line in mutant.lines for test in table.get(line, ())}
    else:
        tests = {test for file in [mutant.file, *importers(mutant.file)] for test in _of_functions(file, found)}
    return tests - flaky


def batches(tests: set[str], alone: dict[str, float]) -> list[Batch]:
    """Split the tests into batches: first the fastest of a few files, then the others by file.

    `alone` maps each test to its run time alone, in seconds.
    """
    by_speed = sorted(tests, key=lambda test: (alone[test], test))
    first, files = Batch(), set[str]()
    for test in by_speed:
        if len(first) < FIRST and (file_of(test) in files or len(files) < FIRST_FILES):
            files.add(file_of(test))
            first.append(test)
    by_file = defaultdict(list)
    for test in by_speed:
        if test not in set(first):
            by_file[file_of(test)].append(test)
    split, spent = [first], BATCH_SECONDS
    for group in sorted(by_file.values(), key=lambda group: fmean(alone[test] for test in group)):
        if spent >= BATCH_SECONDS:
            split.append([])
            spent = 0.0
        split[-1] += group
        spent += sum(alone[test] for test in group)
    return [batch for batch in split if batch]


def file_of(test: str) -> str:
    """Return the file of a test."""
    return test.partition("::")[0]


def _of_functions(file: str, found: CoverageMap) -> set[str]:
    """Return the tests that execute a line in the body of a function of `file`."""
    source = _parsed(file)
    return {test for line, tests in found.lines[file].items() if source.function(line) for test in tests}


def importers(file: str) -> list[str]:
    """Return the files that import `file`."""
    module = ".".join(file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").split("/"))
    return [each for each, names in _imports().items() if module in names]


@cache
def _imports() -> dict[str, set[str]]:
    """Return the modules and names that each file of the project imports."""
    found = {}
    for part in ("src", "tasks", "flows"):
        for path in sorted((ROOT / part).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            nodes = list(ast.walk(_parsed(name).tree))
            plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
            listed = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
            found[name] = plain | {node.module for node in listed if node.module}
            found[name] |= {f"{node.module}.{alias.name}" for node in listed for alias in node.names}
    return found


@cache
def _parsed(file: str) -> Source:
    return Source((ROOT / file).read_text())
