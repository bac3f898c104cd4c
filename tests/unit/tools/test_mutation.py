"""Tests of the mutation tool: its operators, the hand-written mutants, and a run in a tiny repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.choice import batches
from tests.mutation.coverage_map import LEFT_OUT, moved_lines
from tests.mutation.coverage_map import test_files as mapped_files
from tests.mutation.generate import edits, valid
from tests.mutation.mutants import ROOT, handwritten
from tests.mutation.source import Source

SMALL = '''\
"""Small functions."""


def double(x: int) -> int:
    """Return 2 x."""
    return 2 * x


def clipped(x: int) -> int:
    if x > 9:
        x = 9
    return x


def unused(x: int) -> int:
    return x - 1
'''
TESTS = """\
import os
from pathlib import Path
from epigram.training.small import clipped, double

def test_double():
    assert double(3) == 6

def test_clipped():
    assert [clipped(x) for x in (8, 9, 10)] == [8, 9, 9]

def test_once():
    runs = Path(os.environ["RUNS"])
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    assert clipped(3) == 3 and len(runs.read_text()) == 1
"""
MORE_TESTS = """\
from epigram.training.small import unused

def test_unused():
    assert unused(3) == 2
"""
WRITTEN = """\
- {id: killed, file: src/epigram/training/small.py, old: 2 * x, new: 2 + x, effect: adds}
- {id: equivalent, file: src/epigram/training/small.py, old: x > 9, new: x >= 9, effect: none}
- {id: uncovered, file: src/epigram/training/small.py, old: x - 1, new: x - 2, effect: more}
"""


def changed(text: str) -> set[str]:
    source = Source(text)
    return {source.changed(edit) for edit in edits(source) if valid(source, edit)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b", {"a <= b"}),
        ("a  is not  b", {"a  is  b"}),
        ("(a) + (b)", {"(a) - (b)"}),
        ("'é', a / b", {"'é', a * b"}),
        ("a and b or c", {"a or b or c", "a and b and c"}),
        ("not a", {"a"}),
        ("-a", {"a"}),
        ("f(0, 1, 5, True, 0.5)", {f"f({x}, 5, True, 0.5)" for x in ["1, 1", "0, 0", "0, 2"]}
         | {f"f(0, 1, {x})" for x in ["4, True, 0.5", "6, True, 0.5", "5, False, 0.5", "5, True, 1.0"]} | {"pass"}),
        ("row.argmax()", {"row.argmin()", "pass"}),
        ("y = f(a, b=c, d=e)", {"y = f(a, d=e)", "y = f(a, b=c)"}),
        ("y = f(b=c)", {"y = f()"}),
        ("y = x.sum(dim=-1)", {"y = x.sum(dim=0)", "y = x.mean(dim=-1)", "y = x.sum()"}),
        ("y = x[a:]", {"y = x[:]", "y = x[(a) - 1:]"}),
        ("x += y", {"x -= y", "pass"}),
        ("if a:\n    b", {"if not (a):\n    b"}),
        ("y = a if b else c", {"y = a if not (b) else c"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
    ],
)  # fmt: skip
def test_an_operator_changes_its_place_alone(text: str, expected: set[str]) -> None:
    assert changed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "def f(a: 'x[1:]') -> 'y':\n    'Return 1.'",
        "raise ValueError(1 + 2)",
        "assert a < 1",
        "y = f'{a + b}'",
        "log.info(a + b)",
        "y = zip(strict=True)",
        "__all__ = [1]",
        "if TYPE_CHECKING:\n    a + b",
        "@f(1)\ndef g():\n    pass",
        "y = 1e-9",
    ],
)
def test_messages_types_and_logs_are_not_changed(text: str) -> None:
    assert changed(text) == set()


def test_every_handwritten_mutant_applies() -> None:
    assert len(handwritten()) >= 300


def test_a_handwritten_mutant_that_does_not_apply_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("a = 1\nb = 1\n")
    entries = [{"id": "twice", "old": "1"}, {"id": "syntax", "old": "a = 1"}, {"id": "gone", "old": "c"}]
    entries = [entry | {"file": "x.py", "new": "a = = 1", "effect": ""} for entry in [*entries, entries[2]]]
    (tmp_path / "x.yaml").write_text(json.dumps(entries))
    with pytest.raises(ValueError, match=r"gone: the id is used more than once\ntwice: .* 2 times") as error:
        handwritten(tmp_path, tmp_path)
    assert "syntax: " in str(error.value)
    assert "gone: x.py: `old` occurs 0 times" in str(error.value)


def test_the_fastest_tests_come_first_and_a_file_s_tests_stay_together() -> None:
    seconds = {f"{file}::{index}": index / 100 + slow for file, slow in zip("abcdefgh", range(8), strict=True)
               for index in range(10)}  # fmt: skip
    first, *rest = batches(set(seconds), seconds)
    assert first == [f"{file}::{index}" for file in "abcd" for index in range(10)]
    assert [test for batch in rest for test in batch] == [f"{file}::{index}" for file in "efgh" for index in range(10)]


def test_lines_keep_their_tests_when_lines_are_added_above() -> None:
    assert moved_lines(["a", "b", "c"], ["new", "a", "B", "c"]) == {1: 2, 2: 3, 3: 4}


def test_a_run_kills_a_bug_and_lets_an_equivalent_mutant_live(tmp_path: Path) -> None:
    # test_once passes only in the first run, which records coverage; it must not kill the equivalent mutant.
    tool = tmp_path / "tests" / "mutation"
    shutil.copytree(
        Path(__file__).parents[2] / "mutation", tool, ignore=shutil.ignore_patterns("*.yaml", "__pycache__")
    )
    files = {
        "src/epigram/__init__.py": "",
        "src/epigram/training/small.py": SMALL,
        "tests/unit/test_small.py": TESTS,
        "tests/mutation/heavy.txt": "",
        "tests/mutation/handwritten/all.yaml": WRITTEN,
        "tests/mutation/equivalent.yaml": "equivalent: 9 stays 9",
        "docs/development/quality.md": "before\n<!-- mutants: start -->\n<!-- mutants: end -->\nafter\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        ".gitignore": ".epigram/\n__pycache__/\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    env = os.environ | {"PYTHONPATH": f"{tmp_path}:{tmp_path / 'src'}", "RUNS": str(tmp_path / "runs")}
    git = "git -c user.name=t -c user.email=t@t"
    for command in ["git init -q", f"{git} add -A", f"{git} commit -qm small"]:
        subprocess.run(command.split(), cwd=tmp_path, check=True)

    def call(*arguments: str) -> dict[str, dict[str, str]]:
        command = [sys.executable, "-m", "tests.mutation", *arguments, "--workers", "1"]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / ".epigram" / "mutation" / "results.jsonl").read_text().splitlines()
        return {record["id"]: record for record in map(json.loads, lines)}

    found = call("run")
    by_hand = {name: each["status"] for name, each in found.items() if each["origin"] == "handwritten"}
    assert by_hand == {"killed": "killed", "equivalent": "survived", "uncovered": "not covered"}
    assert found["killed"]["by"] == "tests/unit/test_small.py::test_double"
    assert found["killed"]["reason"].startswith("assert 5 == 6")
    call("report")
    assert "| training | 3 | 1 | 0 | 1 | 1 | 0 | 50.0 |" in (tmp_path / "docs/development/quality.md").read_text()
    (tmp_path / "tests" / "unit" / "test_more.py").write_text(MORE_TESTS)
    found = call("run", "--survivors")
    assert (found["equivalent"]["status"], found["uncovered"]["status"]) == ("survived", "killed")


def test_the_map_contains_files_in_subfolders_and_every_excluded_file_exists() -> None:
    files = mapped_files()
    assert "tests/unit/nn/pretrained/test_bert.py" in files
    assert "tests/parity/test_pta.py" in files
    assert not LEFT_OUT & set(files)
    assert all((ROOT / name).is_file() for name in LEFT_OUT)
