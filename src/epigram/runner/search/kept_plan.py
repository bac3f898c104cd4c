"""The plan of the last search in a workspace, so that the same search, if it is killed in the run, continues it.

Without it, a repeated search would have more time left, because its trials are kept, and plan other trainings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from epigram.core.config_types import validate_as
from epigram.core.errors import EpigramError
from epigram.core.files import read_json, write_json
from epigram.workflow.search.candidates import Facts
from epigram.workflow.search.goal import Goal
from epigram.workflow.search.plan import RunPlan

FILE = Path(".epigram/search-plan.json")


def search_key(goal: Goal, facts: Facts, contents: Iterable[str]) -> str:
    """Return the key of a search: equal for the same goal, data and settings, and for `contents`, such as checksums."""
    values = json.dumps([asdict(goal), asdict(facts), *contents], sort_keys=True, default=str)
    return hashlib.sha256(values.encode()).hexdigest()


def read_kept(workspace: Path, key: str) -> RunPlan | None:
    """Return the kept plan if it belongs to the search `key`; a damaged file counts as none."""
    try:
        kept: Any = read_json(workspace / FILE)
        return validate_as(RunPlan, kept["plan"]) if kept["key"] == key else None
    except (EpigramError, KeyError, TypeError):
        return None


def keep(workspace: Path, key: str, plan: RunPlan) -> None:
    """Keep the plan of the search `key`, atomically, instead of the one before."""
    write_json(workspace / FILE, {"key": key, "plan": plan.sections})
