"""The champion in git: references and tags that name it, and the tree of a run's commit.

All refs are given by their full names, such as refs/heads/champion.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.runner.git import git
from epigram.runner.workspace.workspace import SHARED_FOLDERS


def resolve(root: Path, ref: str) -> str | None:
    """Return the commit of a ref, or the object of a tag; None if there is no such ref.

    `git rev-parse` is not asked: it takes a tag refs/tags/refs/heads/champion, which any fetch brings, for the branch.
    """
    found = git(root, "for-each-ref", "--format=%(refname) %(objectname)", ref)
    return dict(line.split(" ") for line in found.splitlines()).get(ref)


def shared_folder(root: Path) -> Path:
    """Return the folder for files that all worktrees of the repository share; without git, .epigram."""
    with suppress(InputMissingError):
        return (root / git(root, "rev-parse", "--git-common-dir")).resolve() / "epigram"
    return root / ".epigram"


def check_not_checked_out(root: Path, branch: str) -> None:
    """Raise ParameterError if the branch is checked out: moving it would make all files look edited."""
    if f"branch {branch}" in git(root, "worktree", "list", "--porcelain").splitlines():
        raise ParameterError("the branch 'champion' is checked out, but retraining moves it; switch to another branch")


def output_hash(workspace: Path, path: str) -> str:
    """Return DVC's hash of the output `path` in the dvc.lock of `workspace`. Raises DataError if there is none."""
    from epigram.runner.dvc.adapter import locked_stages

    outs = (out for stage in locked_stages(workspace).values() for out in stage.get("outs", []))
    found = next((out["md5"] for out in outs if out["path"] == path), None)
    if found is None:
        raise DataError(f"{workspace / 'dvc.lock'} has no output {path}; run the pipeline again")
    return str(found)


def index_run(workspace: Path, start: str | None, env: Mapping[str, str]) -> None:
    """Fill the index with the tree of a run: the commit `start`, its changed files, and new files that stages read."""
    git(workspace, "read-tree", start or "--empty", env=env)
    excluded = [f":(exclude){folder}" for folder in SHARED_FOLDERS]
    git(workspace, "add", "--update", "--", ".", *excluded, env=env, durable=True)
    if new := _untracked_inputs(workspace, env):
        git(workspace, "add", "--", *new, env=env, durable=True)


def _untracked_inputs(workspace: Path, env: Mapping[str, str]) -> list[str]:
    """Return the files that the stages read and git does not track, without outputs and ignored files."""
    from epigram.runner.dvc.adapter import locked_stages

    stages = locked_stages(workspace)
    outs = {out["path"] for stage in stages.values() for out in stage.get("outs", [])}
    inputs = {dep["path"] for stage in stages.values() for dep in stage.get("deps", [])} - outs
    named = [path for path in sorted(inputs) if (workspace / path).exists() and not (workspace / path).is_symlink()]
    wanted = ["dvc.lock", "dvc.yaml", "params.yaml", "data/sources", *named]
    output = git(workspace, "ls-files", "--others", "--exclude-standard", "-z", "--", *wanted, env=env)
    return [name for name in output.split("\0") if name]


def add_to_index(workspace: Path, files: Mapping[str, str], env: Mapping[str, str]) -> None:
    """Add files to the index that are not in the tree."""
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
            blob = git(workspace, "hash-object", "-w", "--no-filters", str(Path(folder) / name), durable=True)
            git(workspace, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", env=env)
