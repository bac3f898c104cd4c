"""Tests of a request's values: what becomes a path or a name stays inside the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prefect.exceptions import ParameterTypeError

from epigram.core.errors import ParameterError
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import workspace_folder
from flows.pipeline import pipeline

NAMES = ("../user", "/user", "", ".", "..", "a/b", "a\\b", "a\0b", "a b", "-x", "$(x)", 3, ["x"], {"a": 1})
VALUES = [
    *({field: value} for field in ("dataset", "name") for value in NAMES),
    *({"systems": (value,)} for value in NAMES),
    *({"changes": {value: 1}} for value in ("../user", "", "train..epochs", "train.epochs.", ".train", "a b", "/user")),
    *({"seeds": value} for value in ([-1], [2**32], ["x"], [1.5], "0", 3)),
    *({"revision": value} for value in ("--all", "-x", "HEAD\n", "a\0b", 3)),
    *({"max_parallel": value} for value in (0, -1, "x", 1.5)),
    {"space": "../../user"},
    {"name": "champion"},
    {"name": "latest"},
    {"changes": [("train.epochs", 1)]},
    {"ray": 3},
]


@pytest.mark.parametrize("values", VALUES, ids=lambda values: f"{values}".replace("\0", "NUL")[:60])
def test_an_unsafe_value_is_no_request_in_python_or_from_the_dashboard(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "precious").touch()
    with pytest.raises((ParameterError, TypeError)):
        Request(root=tmp_path / "project", **values)
    with pytest.raises((ParameterError, ParameterTypeError)):
        pipeline.validate_parameters({"request": {"root": str(tmp_path / "project"), **values}})
    assert [path.name for path in tmp_path.rglob("*")] == ["user", "precious"]


def test_a_request_from_the_dashboard_has_the_values_of_one_in_python(tmp_path: Path) -> None:
    asked = {"dataset": "评论", "seeds": [3], "systems": ["mlp"], "changes": {"train.epochs": 2}, "revision": "HEAD~1"}
    found = pipeline.validate_parameters({"request": {"root": str(tmp_path), **asked}})["request"]
    assert found == Request(root=tmp_path, **{**asked, "seeds": (3,), "systems": ("mlp",)})


def test_a_wrong_value_is_named_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(ParameterError) as raised:
        Request(root=tmp_path, dataset="../user")
    assert str(raised.value).startswith("run: dataset is '../user'; expected letters, digits")
    assert "\n" not in str(raised.value)


def test_each_revision_has_a_workspace_of_its_own(tmp_path: Path) -> None:
    one, same, other = (workspace_folder(Request(root=tmp_path, dataset="toy", revision=name)) for name in "aab")
    assert one == same != other
