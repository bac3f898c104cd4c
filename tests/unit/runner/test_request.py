"""Tests of a request's values: what becomes a path stays inside the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import ParameterError
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import workspace_folder


@pytest.mark.parametrize(
    "values",
    [{"space": "../../user"}, {"space": "/user"}, {"dataset": "../user"}, {"name": "../user"}, {"revision": "--all"}],
    ids=lambda values: next(iter(values)),
)
def test_a_value_that_would_leave_the_project_is_refused(tmp_path: Path, values: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        Request(root=tmp_path, **values)


def test_a_search_and_its_runs_share_one_workspace(tmp_path: Path) -> None:
    asked = Request(root=tmp_path, dataset="toy", plan={"seeds": [0]}, space="search")
    assert workspace_folder(asked) == tmp_path / ".epigram/workspaces/toy-search"
