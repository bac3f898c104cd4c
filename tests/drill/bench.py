"""Copy of the reference repository, into which faults are injected one after another."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import yaml

from tests.drill.place import Place, Running
from tests.drill.reference import Reference, cache_files, lock_of

STAGE = "epigram.stages."  # part of the command of every stage


class Bench(Place):
    """Place whose repository is a copy of the reference run's."""

    def __init__(self, folder: Path, reference: Reference, server: str, *, mounted: bool) -> None:
        super().__init__(folder, server, mounted=mounted)
        self.reference, self.mirror = reference, str(reference.mirror)
        self.forgotten: frozenset[str] = frozenset()

    def restore(self, mark: str) -> None:
        """Begin a trial: restore the repository to its state after the reference run."""
        self.clear(mark)
        self.mirror = str(self.reference.mirror)
        shutil.copytree(self.reference.repo, self.repo, symlinks=True)
        shutil.copytree(self.reference.tmp, self.room / "tmp")
        (self.room / "site").mkdir()

    def settings(self) -> dict[str, str]:
        """Return the environment variables of a trial's commands that a user does not have."""
        return super().settings() | {"EPIGRAM_MIRROR": self.mirror}

    def forget(self, stages: set[str], *, thoroughly: bool = False) -> None:
        """Delete the stages' outputs and dvc.lock entries, and the run cache; `thoroughly`: their cache files too."""
        self.forgotten = frozenset(stages)
        lock = lock_of(self.repo)
        kept = {name: entry for name, entry in lock.items() if name not in stages}
        (self.repo / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": kept}, sort_keys=False))
        for stage in stages:
            for out in self.reference.outs(stage):
                shutil.rmtree(self.repo / out, ignore_errors=True)
        shutil.rmtree(self.repo / ".dvc/cache/runs", ignore_errors=True)
        if thoroughly:
            files = cache_files(lock, self.cache)
            needed = set().union(*(files[name] for name in kept)) if kept else set()
            for path in set().union(*(files[name] for name in stages)) - needed:
                path.unlink(missing_ok=True)

    def remove(self, stage: str) -> None:
        """Delete the outputs of a stage without informing DVC."""
        for out in self.reference.outs(stage):
            shutil.rmtree(self.repo / out)

    @property
    def cache(self) -> Path:
        """Folder of DVC's content-addressed files."""
        return self.repo / ".dvc/cache/files/md5"

    def stage(self, name: str, *wrapper: str, **env: str) -> Running:
        """Start a stage with the command that DVC uses, but without DVC."""
        words = shlex.split(self.reference.lock[name]["cmd"])
        return self.start(*wrapper, sys.executable, *words[1:], DVC_STAGE=name, **env)

    def dvc(self, *arguments: str, **env: str) -> Running:
        """Start `dvc repro`."""
        return self.start(sys.executable, "-m", "dvc", "repro", *arguments, **env)

    def flow(self, *arguments: str, own_server: bool = False, **env: str) -> Running:
        """Start the flow, with the shared Prefect server or one of its own."""
        there = {} if own_server else {"PREFECT_API_URL": self.server}
        return self.start(sys.executable, "-m", "epigram.cli", "run", *arguments, **there, **env)

    def repair(self) -> Running:
        """Start the command behind `make repair`."""
        return self.start(sys.executable, "-m", "epigram.runner.dvc.repair")
