"""Tree of a run: the user's tree or, for overrides and revisions, a git worktree that shares its DVC cache."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError
from epigram.core.files import alone, atomic_file
from epigram.core.settings import dataset_of
from epigram.runner.workspace import git, overrides
from epigram.runner.workspace.request import Request

WRITTEN = ("data", ".dvc")  # folders of a workspace in which files are created and replaced
KEPT = "dvc.lock"  # records the workspace's own runs, not those of the main tree


@dataclass(frozen=True)
class Place:
    """The main tree, the tree in which the stages run (the same one, or a workspace), and the revision that is run."""

    main: Path
    path: Path
    revision: str

    @property
    def dataset(self) -> str:
        """The data set in this tree's params.yaml."""
        return dataset_of(self.path / "params.yaml")


@contextmanager
def opened(request: Request) -> Iterator[Place]:
    """Prepare and lock the tree of a run. Raises TryAgainError while another run works there."""
    main, hidden = request.root, request.root / ".epigram"
    if not request.isolated:
        with held(hidden / "tree.lock", main):
            yield Place(main, main, git.revision(main))
        return
    dataset = request.dataset or dataset_of(main / "params.yaml")
    path = hidden / "workspaces" / f"{dataset}-{request.key}"
    with held(path.with_name(f"{path.name}.lock"), path):
        commit = git.resolve(main, request.revision) if request.revision else git.snapshot(main)
        _lay_out(main, path, commit)
        overrides.write(path / "params.yaml", request)
        yield Place(main, path, commit if request.revision else git.revision(main))


def held(lock: Path, place: Path) -> AbstractContextManager[None]:
    """Lock `place` with the file `lock`. Raises TryAgainError while another run works there."""
    return alone(lock, lambda process: f"another run (process {process}) works in {place}: try again when it has ended")


def _lay_out(main: Path, path: Path, commit: str) -> None:
    """Check out `commit` in the workspace; keep the outputs and dvc.lock."""
    lock = path / KEPT
    kept = lock.read_bytes() if lock.exists() else None  # it may be damaged; it is repaired when it is used
    try:
        git.check_out(main, path, commit)
    finally:
        if kept is not None:
            with atomic_file(lock) as temporary:
                temporary.write_bytes(kept)
    _refuse_links(path)
    _share_cache(main, path)
    _share_local(main / "data" / "local", path / "data" / "local")


def _refuse_links(path: Path) -> None:
    """Raise ParameterError if a folder is a link: files behind the link do not belong to the workspace."""
    for name in WRITTEN:
        if (path / name).is_symlink():
            target = shown(str((path / name).readlink()))
            raise ParameterError(
                f"{name} is a link to {target}, and a run with overrides or of a revision replaces files there: "
                f"make {name} a folder, with links in data/local to what is large"
            )


def _share_cache(main: Path, path: Path) -> None:
    from configobj import ConfigObj
    from dvc.repo import Repo

    if (path / ".dvc" / "config.local").is_symlink():  # written below; a link could point to any file
        (path / ".dvc" / "config.local").unlink()
    config = main / ".dvc" / "config.local"
    if config.exists():
        with atomic_file(path / ".dvc" / "config.local") as temporary:
            temporary.chmod(stat.S_IMODE(config.stat().st_mode) | stat.S_IWUSR)  # it may contain a remote's password
            shutil.copyfile(config, temporary)
    with Repo(str(main)) as repo:
        cache = str(Path(repo.cache.local_cache_dir).absolute())
    # DVC's own `config.edit` writes only ASCII, but a folder can have any name.
    settings = ConfigObj(str(path / ".dvc" / "config.local"), encoding="utf-8")
    settings.setdefault("cache", {})["dir"] = cache
    settings.write()


def _share_local(own: Path, shared: Path) -> None:
    """Link the folder of the user's own files, which are not in git."""
    if not own.is_dir():
        return
    if shared.is_symlink():
        shared.unlink()
    elif shared.exists():
        shutil.rmtree(shared)
    shared.parent.mkdir(parents=True, exist_ok=True)
    shared.symlink_to(own, target_is_directory=True)
