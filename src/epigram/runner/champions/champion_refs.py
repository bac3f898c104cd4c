"""The refs of git in which the champions are recorded: what they name, and whether git can move them.

All refs are given by their full names, such as refs/heads/champion.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.runner.git import git


def resolve(root: Path, ref: str) -> str | None:
    """Return the commit of a ref, None if there is no such ref.

    Raises DataError if the ref exists, but its file or its commit cannot be read, for example after a power cut.
    """
    with suppress(InputMissingError):
        return git(root, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if exists(root, ref):
        raise DataError(
            f"git cannot read the commit of {ref}; copy the lost object from a clone (git fsck names it), or set the "
            f"ref to an earlier champion: rm -f {_path(root, ref)} && git update-ref {ref} COMMIT"
        )
    return None


def exists(root: Path, ref: str) -> bool:
    """Return whether git has the ref, even if the ref or its commit is damaged."""
    with suppress(InputMissingError):  # there is no repository, or no such ref
        return _path(root, ref).is_file() or bool(git(root, "rev-parse", "--verify", "--quiet", ref))
    return False


def check_not_checked_out(root: Path, branch: str) -> None:
    """Raise ParameterError if the branch is checked out: moving it would make all files look edited."""
    if f"branch {branch}" in git(root, "worktree", "list", "--porcelain").splitlines():
        raise ParameterError("the branch 'champion' is checked out, but retraining moves it; switch to another branch")


def check_not_locked(root: Path, *refs: str) -> None:
    """Raise ParameterError if there is a lock file of a ref: git would refuse to move the ref, after the training."""
    for ref in refs:
        lock = _path(root, f"{ref}.lock")
        if lock.exists():
            raise ParameterError(f"{lock} was left by a killed git; if no git command runs: rm {lock}")


def _path(root: Path, name: str) -> Path:
    """Return the path of a file in git's folder."""
    return root / git(root, "rev-parse", "--git-path", name)
