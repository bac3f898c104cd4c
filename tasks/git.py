"""The few things asked of git. Nothing here touches the user's index, branches or files."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from pithy.errors import DataError, InputMissingError

# The same tree gives the same commit, whoever asks and whenever.
AUTHOR = {
    f"GIT_{role}_{fact}": value
    for role in ("AUTHOR", "COMMITTER")
    for fact, value in (("NAME", "pithy"), ("EMAIL", "pithy@localhost"), ("DATE", "@0 +0000"))
}

WRITING = re.compile(r"\bwrit(e|ing)\b|update ref")  # in messages of git about files that it cannot write
LITTLE = 1 << 16  # bytes of a full disk that may be left
LARGEST = 1 << 26  # bytes of a file that is read from a commit


def git(folder: Path, *arguments: str, env: Mapping[str, str] | None = None, text: str | None = None) -> str:
    """Run git in `folder` with none of the user's hooks, `text` as its input; its output.

    Raises InputMissingError with git's own words, OSError where the disk is full or read-only.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", "-c", "advice.addEmbeddedRepo=false"]
    try:
        done = subprocess.run(
            [*command, *arguments],
            env={**own, **(env or {})},
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",  # names of files may be any bytes
            check=False,
        )
    except FileNotFoundError:
        raise InputMissingError("git is not installed: a run with overrides needs it") from None
    if done.returncode:
        if fault := _disk_fault(folder, done.stderr):
            raise OSError(fault, os.strerror(fault), str(folder))
        said = done.stderr.strip().splitlines() or ["no message"]
        raise InputMissingError(f"git {arguments[0]} failed in {folder}: {said[-1]}")
    return done.stdout.strip()


def _disk_fault(folder: Path, said: str) -> int | None:
    """The number of the system's fault behind a failure of git; a full disk is not named in all of its messages."""
    named = (fault for fault in (errno.ENOSPC, errno.EROFS) if os.strerror(fault) in said)
    return next(named, errno.ENOSPC if _is_full(folder, said) else None)


def _is_full(folder: Path, said: str) -> bool:
    places = (folder, Path(gettempdir()))  # the latter has the index
    return bool(WRITING.search(said)) and any(shutil.disk_usage(place).free < LITTLE for place in places)


def head(folder: Path) -> str | None:
    """The current commit, or None where there is none yet."""
    try:
        return git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except InputMissingError:
        return None


def revision(folder: Path) -> str:
    """The current commit, `-dirty` where the tree differs from it; "unknown" without git."""
    commit = head(folder)
    try:
        dirty = git(folder, "status", "--porcelain")
    except InputMissingError:
        return "unknown"
    return f"{commit or 'uncommitted'}{'-dirty' if commit and dirty else ''}"


def resolve(folder: Path, name: str) -> str:
    """The commit that `name` stands for. Raises InputMissingError."""
    try:
        return git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except InputMissingError:
        raise InputMissingError(f"{folder} has no commit {name!r}: commit first") from None


def snapshot(folder: Path) -> str:
    """A commit, on no branch, of the tree as it stands: uncommitted and untracked files too, ignored ones not."""
    index = folder / git(folder, "rev-parse", "--git-path", "index")
    with TemporaryDirectory() as temporary:
        env = {**AUTHOR, "GIT_INDEX_FILE": str(Path(temporary) / "index")}
        if index.exists():  # what git knows of unchanged files spares reading them again
            shutil.copy2(index, env["GIT_INDEX_FILE"])
        git(folder, "add", "--all", env=env)
        tree = git(folder, "write-tree", env=env)
    commit = head(folder)
    parent = ["-p", commit] if commit else []
    return git(folder, "commit-tree", tree, *parent, "-m", "the tree as it stands", env=AUTHOR)


def text_of(folder: Path, commit: str, name: str) -> str:
    """Return the text of the file `name` at `commit`.

    Raises InputMissingError where there is none, DataError for one that is too large or not UTF-8.
    """
    spec = f"{commit}:{name}"
    if int(git(folder, "cat-file", "-s", spec)) <= LARGEST:
        text = git(folder, "show", spec)
        with suppress(UnicodeEncodeError):
            text.encode()
            return text
    at = commit.removeprefix("refs/").partition("/")[2] or commit
    raise DataError(f"{name} at {at} is no UTF-8 text of at most {LARGEST >> 20} MiB: reset it to the last good one")


def check_out(folder: Path, workspace: Path, commit: str) -> None:
    """Make `workspace` a worktree of `folder` at `commit`; files that git ignores stay."""
    if _belongs(folder, workspace):
        git(workspace, "reset", "--quiet", "--hard", commit)
        return
    shutil.rmtree(workspace, ignore_errors=True)
    git(folder, "worktree", "add", "--quiet", "--force", "--detach", str(workspace), commit)


def _belongs(folder: Path, workspace: Path) -> bool:
    """Whether `workspace` is a worktree of `folder`, and not of the repository that both were copied from."""
    if not (workspace / ".git").exists() or not head(workspace):
        return False
    here, there = ((each / git(each, "rev-parse", "--git-common-dir")).resolve() for each in (folder, workspace))
    return here == there
