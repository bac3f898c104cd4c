"""The pipeline's graph as DVC reads it from dvc.yaml, and the stages that are up to date."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epigram.core.errors import InputMissingError, ParameterError, TryAgainError


@dataclass(frozen=True)
class Stage:
    """One stage: its name in DVC, the stages that it depends on, the paths that it writes, and its number of GPUs.

    `gpus` is `one` or `processes` (one for each process of a training), as `meta` of the stage in dvc.yaml says.
    """

    name: str
    needs: frozenset[str]
    outs: tuple[Path, ...] = ()
    gpus: str | None = None


@dataclass(frozen=True)
class Graph:
    """All stages of a workspace in the order of `dvc repro`; the stages in `current` need not run."""

    stages: dict[str, Stage]
    current: frozenset[str] = field(default_factory=frozenset)

    def __iter__(self) -> Iterator[Stage]:
        """Iterate over the stages, dependencies first."""
        return iter(self.stages.values())

    def __len__(self) -> int:
        return len(self.stages)

    def up_to(self, output: Path) -> Graph:
        """Return the graph of the stage that writes `output`, and of all that it depends on."""
        wanted: set[str] = set()
        for stage in reversed(list(self)):  # dependencies come first, so they are reached last
            if stage.name in wanted or output in stage.outs:
                wanted |= {stage.name, *stage.needs}
        return Graph({name: stage for name, stage in self.stages.items() if name in wanted}, self.current)

    def find(self, name: str) -> Path | None:
        """Return the file `name` in the output folder of the first stage that wrote one, or None."""
        files = (out / name for stage in self for out in stage.outs)
        return next((file for file in files if file.is_file()), None)


def read(root: Path) -> Graph:
    """Read the graph of the workspace `root`, and compare it with the disk once. Repairs damaged DVC records first.

    Raises InputMissingError if there is no pipeline, ParameterError if dvc.yaml is invalid, TryAgainError if another
    process holds DVC's lock.
    """
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.lock import LockError

    from epigram.runner.dvc.adapter import open_repo, stages_with_needs
    from epigram.runner.dvc.repair import repair_records

    if not (root / "dvc.yaml").is_file():
        raise InputMissingError(f"{root} has no dvc.yaml; run from the root of the repository")
    try:
        repair_records(root)
        with open_repo(root) as repo:
            found = list(stages_with_needs(repo))
            stages = {
                _name(stage): Stage(
                    name=_name(stage),
                    needs=frozenset(map(_name, needs)),
                    outs=tuple(Path(out.fs_path) for out in stage.outs),
                    gpus=(getattr(stage, "meta", None) or {}).get("gpus"),
                )
                for stage, needs in found
            }
            differing = repo.status()
            changed = {_name(stage) for stage, _ in found if stage.addressing in differing}
    except NotDvcRepoError:
        raise InputMissingError(f"{root} is not a DVC repository; run `dvc init`") from None
    except LockError as error:
        raise TryAgainError(
            f"another process holds DVC's lock in {root}; try again later: {_first_line(error)}"
        ) from None
    except DvcException as error:
        raise ParameterError(f"dvc.yaml is invalid: {_first_line(error)}") from None
    current: set[str] = set()  # unchanged, with all of their dependencies unchanged
    for stage in stages.values():
        if stage.name not in changed and stage.needs <= current:
            current.add(stage.name)
    return Graph(stages, frozenset(current))


def _name(stage: Any) -> str:
    """Return the stage's name for `dvc repro` in the root; DVC's own `addressing` depends on the current folder."""
    path, name = str(stage.path_in_repo), getattr(stage, "name", "")  # a .dvc file has no name
    if path == "dvc.yaml":
        return str(name)
    return f"{path}:{name}" if name else path


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
