"""Folders with the project's code, for tests that read it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = sorted(path for folder in ("src", "flows", "tasks", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
