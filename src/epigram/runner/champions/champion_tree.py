"""The tree of a champion's commit, built in a temporary index of git, and the outputs that its dvc.lock names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from epigram.core.errors import DataError
from epigram.runner.git import git


def output_hash(workspace: Path, path: str) -> str:
    """Return DVC's hash of the output `path` in the dvc.lock of `workspace`. Raises DataError if there is none."""
    from epigram.runner.dvc.adapter import locked_stages

    outs = (out for stage in locked_stages(workspace).values() for out in stage.get("outs", []))
    found = next((out["md5"] for out in outs if out["path"] == path), None)
    if found is None:
        raise DataError(f"{workspace / 'dvc.lock'} has no output {path}; run the pipeline again")
    return str(found)


def untracked_inputs(workspace: Path, env: Mapping[str, str]) -> list[str]:
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


@contextmanager
def temporary_index() -> Iterator[dict[str, str]]:
    """Yield the environment variables that make git use a new, empty index."""
    with TemporaryDirectory() as folder:
        yield {"GIT_INDEX_FILE": str(Path(folder) / "index")}
