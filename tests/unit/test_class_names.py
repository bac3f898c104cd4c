"""Test that a class name stands for one class."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"


def test_no_name_is_defined_by_two_classes() -> None:
    found = defaultdict(list)
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(SOURCES).as_posix())
    assert len(found) > 300
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
