"""Tests of the hand-written mutants and of the runner that applies them."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.__main__ import ROOT, Mutant, Tree, handwritten

MUTANTS = handwritten()
SOURCE = "def double(x):\n    return 2 * x\n"
TEST = "from small import double\ndef test_double():\n    assert double(3) == 6\n"


def test_every_mutant_applies_once_to_valid_code_and_names_tests() -> None:
    for mutant in MUTANTS:
        text = (ROOT / mutant.file).read_text()
        assert text.count(mutant.old) == 1, f"{mutant.id}: `old` occurs {text.count(mutant.old)} times"
        assert mutant.old != mutant.new and mutant.effect, mutant.id
        if mutant.file.endswith(".py"):
            compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
        assert mutant.tests and all((ROOT / name).exists() for name in mutant.tests), f"{mutant.id}: {mutant.tests}"


def test_every_mutant_has_its_own_id() -> None:
    assert max(Counter(mutant.id for mutant in MUTANTS).values()) == 1


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a tree with one module and one test."""
    source = tmp_path / "source"
    (source / "src").mkdir(parents=True)
    (source / "src/small.py").write_text(SOURCE)
    (source / "test_small.py").write_text(TEST)
    subprocess.run(["git", "init", "--quiet"], cwd=source, check=True)
    return Tree(tmp_path / "tree", source)


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("2 * x", "2 + x", "killed"),
        ("2 * x", "x * 2", "survived"),
        ("3 * x", "2 + x", "invalid"),
    ],
)
def test_a_mutant_is_killed_if_a_test_fails_only_with_it(tree: Tree, old: str, new: str, status: str) -> None:
    assert tree.examine(Mutant("m", "src/small.py", ("test_small.py",), old, new, "wrong")) == status
    assert (tree.root / "src/small.py").read_text() == SOURCE


def test_a_mutant_whose_tests_fail_without_it_is_invalid(tree: Tree) -> None:
    (tree.root / "test_small.py").write_text(TEST.replace("6", "7"))
    assert tree.examine(Mutant("m", "src/small.py", ("test_small.py",), "2 * x", "2 + x", "wrong")) == "invalid"
