"""Helpers that run git. None of them touches the user's index, branches or files."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from epigram.core.config_types import shown
from epigram.core.errors import DataError, InputMissingError, ParameterError

# Fixed author and date: the same tree always gives the same commit.
FIXED_AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "epigram"), ("EMAIL", "epigram@localhost"), ("DATE", "@0 +0000"))
}

# Parts of git's messages about the disk.
DISK_ERRORS = {os.strerror(code): code for code in (errno.ENOSPC, errno.EROFS)} | {"Out of diskspace": errno.ENOSPC}
# The second option is for git before 2.36, which ignores the first one.
DURABLE = ("-c", "core.fsync=all", "-c", "core.fsyncObjectFiles=true")
# Parts of messages of a git that cannot read the repository at all, and what is wrong with the folder.
UNREADABLE = {
    "not a git repository": "{0} is in no git repository; run git init in the folder of the project",
    "dubious ownership": "{0} belongs to another user, so git does not read it; if you trust its files, run "
    "git config --global --add safe.directory {0}",
}
MAX_FILE_BYTES = 1 << 26  # maximum size in bytes of a file read from a commit


class UnreadableRepositoryError(InputMissingError):
    """Error for a folder that git does not read, or for a machine without git."""


def git(
    folder: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
    durable: bool = False,
) -> str:
    """Run git in `folder` without the user's hooks, with `text` as standard input, and return its output.

    If `durable`, the objects and refs that git writes are on the disk when it ends.

    Raises InputMissingError with git's message, UnreadableRepositoryError if git reads nothing in the folder, and
    OSError if git says that the disk is full or read-only.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", "-c", "advice.addEmbeddedRepo=false"]
    command += DURABLE if durable else ()
    try:
        result = subprocess.run(
            [*command, *arguments],
            env={**environment, "LC_ALL": "C", **(env or {})},  # messages in English
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",  # file names can contain any bytes
            check=False,
        )
    except FileNotFoundError:
        raise UnreadableRepositoryError("git is not installed; install it: a run needs it") from None
    if result.returncode:
        for part, code in DISK_ERRORS.items():
            if part in result.stderr:
                raise OSError(code, os.strerror(code), str(folder))
        for part, reason in UNREADABLE.items():
            if part in result.stderr:
                raise UnreadableRepositoryError(reason.format(folder.absolute()))
        lines = result.stderr.strip().splitlines() or ["no message"]
        reason = next((line for line in lines if line.startswith("fatal: ")), lines[-1])  # advice may follow
        raise InputMissingError(f"git {arguments[0]} failed in {folder}: {reason}")
    return result.stdout.strip()


def commit_of(folder: Path, name: str = "HEAD") -> str | None:
    """Return the commit that `name` refers to, or None if there is none yet."""
    try:
        return git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except UnreadableRepositoryError:
        raise
    except InputMissingError:
        return None


def revision(folder: Path) -> str:
    """Return the current commit, with `-dirty` if the tree differs from it."""
    commit = commit_of(folder)
    dirty = git(folder, "status", "--porcelain")
    return f"{commit or 'uncommitted'}{'-dirty' if commit and dirty else ''}"


def require_top_level(folder: Path) -> None:
    """Raise an error if `folder` is not the top folder of a git repository: git would read and write an outer one."""
    if git(folder, "rev-parse", "--show-prefix"):
        outer = git(folder, "rev-parse", "--show-toplevel")
        raise ParameterError(
            f"{folder.absolute()} is inside the git repository {shown(outer)}; a project is a repository of its own: "
            "run git init and dvc init there, or move the project out"
        )


def resolve(folder: Path, name: str) -> str:
    """Return the commit that `name` refers to. Raises InputMissingError if there is none."""
    if commit := commit_of(folder, name):
        return commit
    raise InputMissingError(f"{folder}: no commit {name!r}; commit first")


@contextmanager
def temporary_index() -> Iterator[dict[str, str]]:
    """Yield the environment variables that make git use a new, empty index."""
    with TemporaryDirectory() as folder:
        yield {"GIT_INDEX_FILE": str(Path(folder) / "index")}


def snapshot(folder: Path) -> str:
    """Commit the working tree, on no branch, with uncommitted and untracked files but without ignored ones.

    Returns the commit.
    """
    index = folder / git(folder, "rev-parse", "--git-path", "index")
    with temporary_index() as env:
        if index.exists():  # git does not read unchanged files again if it has the cached file states
            shutil.copy2(index, env["GIT_INDEX_FILE"])
        git(folder, "add", "--all", env=env)
        tree = git(folder, "write-tree", env=env)
    commit = commit_of(folder)
    parent = ["-p", commit] if commit else []
    return git(folder, "commit-tree", tree, *parent, "-m", "snapshot of the working tree", env=FIXED_AUTHOR)


def read_file_at(folder: Path, commit: str, name: str) -> str:
    """Return the text of the file `name` at `commit`.

    Raises InputMissingError if the file does not exist, DataError if it is too large or not UTF-8.
    """
    spec = f"{commit}:{name}"
    if int(git(folder, "cat-file", "-s", spec)) <= MAX_FILE_BYTES:
        text = git(folder, "show", spec)
        with suppress(UnicodeEncodeError):
            text.encode()
            return text
    at = commit.removeprefix("refs/").partition("/")[2] or commit
    raise DataError(
        f"{name} at {at} is not UTF-8 or is larger than {MAX_FILE_BYTES >> 20} MiB; reset {at} to the last valid commit"
    )


def check_out(folder: Path, workspace: Path, commit: str) -> None:
    """Make `workspace` a worktree of `folder` at `commit`; in an existing worktree, ignored files are kept.

    The caller holds the lock of the workspace, so no other git works there: the lock files that a killed git left in an
    existing worktree are removed.
    """
    if _is_worktree_of(folder, workspace):
        for lock in Path(git(workspace, "rev-parse", "--absolute-git-dir")).glob("*.lock"):
            lock.unlink(missing_ok=True)
        git(workspace, "reset", "--quiet", "--hard", commit)
        return
    shutil.rmtree(workspace, ignore_errors=True)
    # twice --force: a git that was killed here leaves the missing worktree locked
    git(folder, "worktree", "add", "--quiet", "--force", "--force", "--detach", str(workspace), commit)


def _is_worktree_of(folder: Path, workspace: Path) -> bool:
    """Return whether `workspace` is a worktree of `folder`, not of a repository that both were copied from."""
    with suppress(UnreadableRepositoryError):  # its repository was moved
        if (workspace / ".git").exists() and commit_of(workspace):
            here, there = (
                (each / git(each, "rev-parse", "--git-common-dir")).resolve() for each in (folder, workspace)
            )
            return here == there
    return False
