"""The graph equals DVC's graph, and up-to-date stages are found without starting a process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epigram.core.errors import InputMissingError, ParameterError
from epigram.runner.dvc import graph
from tests.support.toy import Toy


def dvc_edges(toy: Toy) -> set[tuple[str, str]]:
    """Return pairs (stage, dependent stage) as `dvc dag` prints them."""
    return set(re.findall(r'"([^"]+)" -> "([^"]+)"', toy.shell("dvc", "dag", "--dot", "--full")))


def test_the_graph_is_that_of_dvc(toy: Toy) -> None:
    stages = graph.read(toy.root)

    assert set(stages.stages) == set(re.findall(r"^(\S+)", toy.shell("dvc", "stage", "list"), re.MULTILINE))
    assert {(need, stage.name) for stage in stages for need in stage.needs} == dvc_edges(toy)


def test_stages_come_after_what_they_need(toy: Toy) -> None:
    seen: set[str] = set()
    for stage in graph.read(toy.root):
        assert stage.needs <= seen
        seen.add(stage.name)


def test_a_stage_after_a_changed_one_is_not_current(toy: Toy) -> None:
    assert graph.read(toy.root).current == set()
    toy.shell("dvc", "repro", "--quiet")
    assert graph.read(toy.root).current == set(graph.read(toy.root).stages)

    params = toy.root / "params.yaml"
    params.write_text(params.read_text().replace("mlp: {view: token}", "mlp: {view: token, train: {epochs: 2}}"))
    assert graph.read(toy.root).current == {"gather", "cut@token", "cut@wordpiece", "fit@bert"}


def test_the_names_do_not_depend_on_the_current_folder(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = graph.read(toy.root)
    monkeypatch.chdir(toy.root / "data")
    assert graph.read(toy.root).stages == outside.stages


def test_no_pipeline_and_a_broken_one_are_said_plainly(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"no dvc.yaml"):
        graph.read(tmp_path)
    (toy.root / "dvc.yaml").write_text("stages:\n  gather:\n    cmd: echo ${nothing}\n")
    with pytest.raises(ParameterError, match=r"dvc.yaml is invalid: .*nothing"):
        graph.read(toy.root)
