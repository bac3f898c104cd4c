"""Tree of a run: the user's tree or, for overrides and revisions, a git worktree that shares its DVC cache."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from epigram.checkpoints.hub import HUB_FOLDER
from epigram.core.errors import ParameterError
from epigram.core.files import atomic_file, exclusive_lock
from epigram.core.settings import dataset_of
from epigram.runner import git
from epigram.runner.project.files import check_project, check_version
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request

WRITTEN_FOLDERS = ("data", ".dvc", ".epigram")  # folders of a workspace in which files are created and replaced
# folders of the main tree that every workspace links to
SHARED_FOLDERS = ("data/local", "data/pos_versions", "runs", str(HUB_FOLDER))
LOCK_FILE = "dvc.lock"  # records the workspace's own runs, not the main tree's


@dataclass(frozen=True)
class Workspace:
    """The main tree, the tree in which the stages run (the main tree or a workspace), and the revision that is run."""

    main: Path
    path: Path
    revision: str

    @property
    def dataset(self) -> str:
        """The data set in this tree's params.yaml."""
        return dataset_of(self.path / "params.yaml")


def workspace_folder(request: Request) -> Path:
    """Return the tree in which the request runs, which may not exist yet."""
    if not request.isolated:
        return request.root
    dataset = request.dataset or dataset_of(request.root / "params.yaml")
    return request.root / ".epigram" / "workspaces" / f"{dataset}-{request.key}"


@contextmanager
def open_workspace(request: Request) -> Iterator[Workspace]:
    """Prepare and lock the tree of a run, and check its teachers.

    Raises the errors of `check_project`, and TryAgainError while another run uses the tree.
    """
    main, path = request.root, workspace_folder(request)
    check_project(main)
    if not request.isolated:
        with lock_tree(main):
            overrides.check_teachers(main / "params.yaml")
            yield Workspace(main, main, git.revision(main))
        return
    with lock_folder(path.with_name(f"{path.name}.lock"), path):
        commit = git.resolve(main, request.revision) if request.revision else git.snapshot(main)
        _check_out(main, path, commit)
        check_version(path)
        overrides.write(path / "params.yaml", request)
        if not request.revision:  # its own code checks it
            overrides.check_teachers(path / "params.yaml")
        yield Workspace(main, path, commit if request.revision else git.revision(main))


def lock_tree(main: Path) -> AbstractContextManager[None]:
    """Lock the user's tree. Raises TryAgainError while a run works there."""
    return lock_folder(main / ".epigram" / "tree.lock", main)


def lock_folder(lock: Path, folder: Path) -> AbstractContextManager[None]:
    """Lock `folder` with the file `lock`. Raises TryAgainError while another run works there."""
    return exclusive_lock(
        lock, lambda process: f"{folder} is in use by another run (process {process}); try again when it has finished"
    )


def _check_out(main: Path, path: Path, commit: str) -> None:
    """Check out `commit` in the workspace; keep the outputs and dvc.lock."""
    lock = path / LOCK_FILE
    content = lock.read_bytes() if lock.exists() else None  # it may be damaged; it is repaired when it is used
    try:
        git.check_out(main, path, commit)
    finally:
        if content is not None:
            with atomic_file(lock) as temporary:
                temporary.write_bytes(content)
    _check_no_links(path)
    _share_cache(main, path)
    (main / HUB_FOLDER).mkdir(parents=True, exist_ok=True)  # a run downloads into the main tree
    for folder in SHARED_FOLDERS:
        _link_shared_folder(main / folder, path / folder)


def _check_no_links(path: Path) -> None:
    """Raise ParameterError if a folder is a link: files behind the link do not belong to the workspace."""
    for name in WRITTEN_FOLDERS:
        if (path / name).is_symlink():
            raise ParameterError(
                f"{name} is a link; a run with overrides or of a revision would replace files behind it. "
                f"Replace the link with a folder, and put large files in data/local or link to them from there"
            )


def _share_cache(main: Path, path: Path) -> None:
    from configobj import ConfigObj

    from epigram.runner.dvc.adapter import shared_cache_folder

    if (path / ".dvc" / "config.local").is_symlink():  # written below; a link could point to any file
        (path / ".dvc" / "config.local").unlink()
    config = main / ".dvc" / "config.local"
    if config.exists():
        with atomic_file(path / ".dvc" / "config.local") as temporary:
            temporary.chmod(stat.S_IMODE(config.stat().st_mode) | stat.S_IWUSR)  # it may contain a remote's password
            shutil.copyfile(config, temporary)
    # DVC's own `config.edit` writes only ASCII, but a folder can have any name.
    settings = ConfigObj(str(path / ".dvc" / "config.local"), encoding="utf-8")
    settings.setdefault("cache", {})["dir"] = str(shared_cache_folder(main))
    settings.write()


def _link_shared_folder(own: Path, shared: Path) -> None:
    """Link a folder of the main tree whose files are not in git."""
    if not own.is_dir():
        return
    if shared.is_symlink():
        shared.unlink()
    elif shared.exists():
        shutil.rmtree(shared)
    shared.parent.mkdir(parents=True, exist_ok=True)
    shared.symlink_to(own, target_is_directory=True)
