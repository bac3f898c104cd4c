"""The refresh of the part-of-speech table with DVC: new words are published once, tracked, and used by the stage."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from epigram.core.errors import TryAgainError
from epigram.runner.champions import champion
from epigram.runner.workspace.request import Request
from epigram.text.pos.pos_versions import read_version
from tests.support.project_copy import tree

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect_server")]

KEPT = ("download", "validate", "pos_table")
NOTHING = "the output of pos_table has not changed; nothing to do"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project whose pipeline ends with `pos_table`."""
    root = tree(tmp_path_factory.mktemp("refresh") / "project")
    graph = yaml.safe_load((root / "dvc.yaml").read_text())
    kept = {"stages": {name: graph["stages"][name] for name in KEPT}}
    (root / "dvc.yaml").write_text(yaml.safe_dump(kept, sort_keys=False))
    commit(root)
    return root


def commit(root: Path) -> None:
    shell(root, "git", "add", "--all")
    shell(root, "git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--message", "t")


def shell(root: Path, *command: str) -> str:
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def dvc(root: Path, *arguments: str) -> str:
    return shell(root, sys.executable, "-m", "dvc", *arguments)


def refreshed(root: Path) -> Any:
    """Run the flow and return its state."""
    from flows.refresh_pos import refresh_pos

    state = refresh_pos(root, "pos_table", return_state=True)
    assert state.is_completed(), state.message
    return state


def version_in(tree_of_run: Path) -> int:
    about = json.loads((tree_of_run / "data/pos/about.json").read_text(encoding="utf-8"))
    return int(about["version"])


def workspace(root: Path) -> Path:
    (found,) = (path for path in (root / ".epigram/workspaces").iterdir() if path.is_dir())
    return found


def test_during_a_retraining_nothing_is_published(project: Path) -> None:
    from flows.refresh_pos import refresh_pos

    with champion.lock(project):
        state = refresh_pos(project, "pos_table", return_state=True)
        with pytest.raises(TryAgainError, match=r"^no new version is published; .*runs/champion is in use by"):
            state.result()
    assert not (project / "data/pos_versions/words.tsv").exists()


def test_a_refresh_publishes_the_words_of_train_once(project: Path) -> None:
    versions = project / "data/pos_versions"
    refreshed(project)
    published = read_version(versions)
    assert published.number == 2
    assert published.words.height > 100
    assert set(published.words["language"]) == {"zh"}
    assert version_in(workspace(project)) == 2, "the pipeline ran with the published version"
    assert not (project / "data/pos").exists(), "no stage ran in the user's tree"

    assert refreshed(project).message == NOTHING
    assert read_version(versions).number == 2


def test_the_version_is_tracked_and_the_user_s_tree_uses_it(project: Path) -> None:
    words = project / "data/pos_versions/words.tsv"
    assert shell(project, "git", "status", "--porcelain").splitlines() == ["?? data/pos_versions/words.tsv.dvc"]
    commit(project)
    content = words.read_bytes()
    words.unlink()
    dvc(project, "checkout", "data/pos_versions/words.tsv.dvc")
    assert words.read_bytes() == content
    from flows.pipeline import pipeline

    run = pipeline(Request(root=project), return_state=True).result()
    assert version_in(project) == 2
    assert {name: record.state for name, record in run.stages.items()} == {
        "data/pos_versions/words.tsv.dvc": "Cached",
        **dict.fromkeys(KEPT, "Restored"),
    }
    # the next version starts from the committed one
    words.write_text(content.decode().replace("# version 2,", "# version 7,"), encoding="utf-8")
    dvc(project, "add", "-q", str(words))
    commit(project)
    refreshed(project)
    assert version_in(workspace(project)) == 7


def test_the_graph_has_the_version_as_a_dependency_and_no_cycle(project: Path) -> None:
    from epigram.runner.dvc import graph

    stages = graph.read(project).stages
    tracked = "data/pos_versions/words.tsv.dvc"
    assert stages["pos_table"].needs == {"validate", tracked}
    assert stages[tracked].needs == frozenset()
