"""Mutation testing: change the code in one place, and see whether a test fails.

python -m tests.mutation [--only ID ...]   apply each hand-written mutant to a copy of the tree and run its tests
python -m tests.mutation --generated       run cosmic-ray with tests/mutation/cosmic-ray.toml in a copy of the tree

The exit code is 1 if a mutant survives. A mutant of tests/mutation/handwritten is {id, file, tests, old, new, effect}:
`old` occurs once in `file`, `tests` are the files or folders whose tests must notice `new`, and `effect` is what a user
would see.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
HANDWRITTEN = Path(__file__).parent / "handwritten"
LIMIT = 900  # seconds for the tests of one mutant; an endless loop counts as noticed


@dataclass(frozen=True)
class Mutant:
    """One change of one file, and the tests that must fail with it."""

    id: str
    file: str
    tests: tuple[str, ...]
    old: str
    new: str
    effect: str


def handwritten(folder: Path = HANDWRITTEN) -> list[Mutant]:
    """Return the hand-written mutants."""
    entries = [entry for path in sorted(folder.glob("*.yaml")) for entry in yaml.safe_load(path.read_text()) or []]
    return [Mutant(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]


class Tree:
    """Copy of the tracked and new files of the repository, in which mutants are applied and tests run."""

    def __init__(self, folder: Path, source: Path = ROOT) -> None:
        self.root = folder
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=source, check=True, capture_output=True, text=True).stdout.split("\0")
        for name in names:
            if name and (source / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes((source / name).read_bytes())
        self.env = os.environ | {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        self.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.without_mutant = cache(self.passes)

    def passes(self, tests: tuple[str, ...]) -> bool:
        """Return whether the tests pass in the tree as it is."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(command, cwd=self.root, env=self.env, capture_output=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def examine(self, mutant: Mutant) -> str:
        """Return "killed", "survived", or "invalid": `old` does not occur once, or tests fail without the mutant."""
        path = self.root / mutant.file
        before = path.read_text()
        if before.count(mutant.old) != 1 or not self.without_mutant(mutant.tests):
            return "invalid"
        path.write_text(before.replace(mutant.old, mutant.new))
        try:
            return "survived" if self.passes(mutant.tests) else "killed"
        finally:
            path.write_text(before)

    def generate(self) -> int:
        """Run cosmic-ray in the tree and print its report."""
        config, session = "tests/mutation/cosmic-ray.toml", "cosmic-ray.sqlite"
        for command in (["cosmic-ray", "init", config], ["cosmic-ray", "exec", config], ["cr-report"]):
            program = Path(sys.executable).with_name(command[0])
            subprocess.run([program, *command[1:], session], cwd=self.root, env=self.env, check=True)
        return 0


def main() -> int:
    """Run the mutants, print a line per mutant and the counts; return 1 unless each is killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", metavar="ID", default=["*"], help="only these mutants; * matches anything")
    parser.add_argument("--generated", action="store_true", help="run the mutants of cosmic-ray instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Tree(Path(folder))
        if options.generated:
            return tree.generate()
        found: dict[str, int] = {}
        for mutant in handwritten():
            if any(fnmatch(mutant.id, pattern) for pattern in options.only):
                status = tree.examine(mutant)
                found[status] = found.get(status, 0) + 1
                print(f"{status:<10}{mutant.id}: {mutant.effect}", flush=True)
    print(", ".join(f"{count} {status}" for status, count in sorted(found.items())))
    return int(set(found) != {"killed"})


if __name__ == "__main__":
    sys.exit(main())
