"""Tests of checkpoints without a commit: params.yaml gets the newest one of the hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from epigram.core.errors import InputMissingError, SourceUnavailableError
from epigram.runner.workspace.pinned_checkpoints import pin_checkpoints
from tests.support.hub_server import CHECKPOINT, REPOSITORY, HubServer, hub

PARAMS = f"""\
views:
  a: {{tokenizer: wordpiece, checkpoint: "hub:{REPOSITORY}"}}   # mine
  b: {{tokenizer: wordpiece, checkpoint: "hub:{REPOSITORY}", prompt: true}}
  c: {{checkpoint: data/local/x}}
  d: {{tokenizer: token}}
systems:
  bert: {{view: a}}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with hub() as running:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", running.address)
        yield running


def test_the_newest_commit_is_written_once(server: HubServer, tmp_path: Path) -> None:
    params = tmp_path / "params.yaml"
    params.write_text(PARAMS)
    assert pin_checkpoints(params) == [
        f"params.yaml: the checkpoint hub:{REPOSITORY} is now {CHECKPOINT}, its newest commit"
    ]
    lines = params.read_text().splitlines()
    assert [line.count(CHECKPOINT) for line in lines] == [0, 1, 1, 0, 0, 0, 0]
    assert lines[1].endswith("# mine") and lines[3:] == PARAMS.splitlines()[3:]
    asked = list(server.asked)
    assert len(asked) == 1
    assert pin_checkpoints(params) == [] and server.asked == asked


@pytest.mark.parametrize("name", [f"hub:{REPOSITORY}@main", CHECKPOINT, "hub:", "hub:a/b/c", "package:x", "org/name"])
def test_other_checkpoints_stay_without_a_request(name: str, server: HubServer, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(content := PARAMS.replace(f"hub:{REPOSITORY}", name))
    assert pin_checkpoints(tmp_path / "params.yaml") == []
    assert (tmp_path / "params.yaml").read_text() == content and not server.asked


@pytest.mark.parametrize("content", ["views: token\n", "seeds: [0]\n", "views: {a: b}\n"])
def test_a_file_without_views_stays(content: str, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(content)
    assert pin_checkpoints(tmp_path / "params.yaml") == []


@pytest.mark.parametrize(("status", "error"), [(404, InputMissingError), (503, SourceUnavailableError)])
def test_without_an_answer_the_file_stays(
    status: int, error: type[Exception], server: HubServer, tmp_path: Path
) -> None:
    (tmp_path / "params.yaml").write_text(PARAMS)
    server.status = status
    with pytest.raises(error, match=f"checkpoint 'hub:{REPOSITORY}'"):
        pin_checkpoints(tmp_path / "params.yaml")
    assert (tmp_path / "params.yaml").read_text() == PARAMS
