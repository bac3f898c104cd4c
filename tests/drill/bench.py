"""Reference run, and a copy of its repository into which faults are injected one after another."""

from __future__ import annotations

import hashlib
import json
import random
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.drill.place import Place, Running, environment
from tests.support.toy import PARTS

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "data/pocket",
    "data/local",
    "data/pos_versions",
)  # dependencies that are empty here
ROWS = 300
SIMPLE, NEURAL = "tfidf_svm", "dmsp"
LEARNING = (f"train@{NEURAL}", "pretrain@token")  # the stages that write checkpoints
PRETRAIN = {"width": 32, "depth": 1, "heads": 2, "hidden": 32, "epochs": 4, "batch_size": 16}
PARAMS = {
    "dataset": "drill",
    "seeds": [0],
    "views": {"token": {"tokenizer": "token", "pretrain": PRETRAIN}},
    "train": {"epochs": 3},
    "prune": {"epochs": 1},
    "download": {"tries": 2, "timeout": 1},
    "evaluate": {"resamples": 200, "timing_texts": 16},
}
EARLIER = "earlier"  # name of a run that must still exist after every fault
STAGE = "epigram.stages."  # part of the command of every stage
CHAIN, ALL = 3, 0.1  # stages undone before a fault under DVC or the flow; probability that all dependent ones are


@dataclass(frozen=True)
class Reference:
    """The finished repository, its content, and the run times of its stages."""

    repo: Path
    tmp: Path  # TMPDIR after the run: contains a dictionary that is slow to read otherwise
    mirror: Path
    lock: dict[str, Any]  # dvc.lock's stages
    outputs: dict[str, str]  # digest of every file of every output
    runs: dict[str, str]  # of every file below runs/
    needs: dict[str, frozenset[str]]  # stage → stages whose outputs it reads
    seconds: dict[str, float]  # run time of each stage

    def outs(self, stage: str) -> list[str]:
        """Return the paths that a stage writes."""
        return [out["path"] for out in self.lock[stage]["outs"]]

    def after(self, stage: str) -> list[str]:
        """Return the stage and all stages that depend on it, in the order of the pipeline."""
        found = [stage]
        for name, needs in self.needs.items():
            if needs & set(found):
                found.append(name)
        return found


class Bench(Place):
    """Place whose repository is a copy of the reference run's."""

    def __init__(self, folder: Path, reference: Reference, server: str, *, mounted: bool) -> None:
        super().__init__(folder, server, mounted=mounted)
        self.reference, self.mirror = reference, str(reference.mirror)
        self.forgotten: list[str] = []

    def restore(self, mark: str) -> None:
        """Begin a trial: restore the repository to its state after the reference run."""
        super().restore(mark)
        shutil.copytree(self.reference.repo, self.repo, symlinks=True)
        shutil.copytree(self.reference.tmp, self.room / "tmp")
        (self.room / "site").mkdir()

    def settings(self) -> dict[str, str]:
        """Return the environment variables of a trial's commands that a user does not have."""
        return super().settings() | {"EPIGRAM_MIRROR": self.mirror}

    def any_stage(self, rng: random.Random) -> str:
        """Return a random stage."""
        return rng.choice(sorted(self.reference.lock))

    def forget(self, stages: list[str], *, thoroughly: bool = False) -> None:
        """Delete the stages' outputs and dvc.lock entries, and the run cache; `thoroughly`: their cache files too."""
        self.forgotten = stages
        lock = lock_of(self.repo)
        kept = {name: entry for name, entry in lock.items() if name not in stages}
        (self.repo / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": kept}, sort_keys=False))
        for out in (out for stage in stages for out in self.reference.outs(stage)):
            shutil.rmtree(self.repo / out, ignore_errors=True)
        shutil.rmtree(self.repo / ".dvc/cache/runs", ignore_errors=True)
        if thoroughly:
            needed = self.cached(*kept) if kept else set()
            for path in self.cached(*stages) - needed:
                path.unlink(missing_ok=True)

    def remove(self, stage: str) -> None:
        """Delete the outputs of a stage without informing DVC."""
        for out in self.reference.outs(stage):
            shutil.rmtree(self.repo / out)

    def undo(self, rng: random.Random) -> str:
        """Undo a random stage and the next stages that depend on it, sometimes all of them; return the stage.

        The other stages are kept: they are up to date once their inputs are the same again.
        """
        name = self.any_stage(rng)
        chain = self.reference.after(name)
        self.forget(chain if rng.random() < ALL else chain[:CHAIN], thoroughly=rng.random() < 0.5)
        return name

    @property
    def span(self) -> float:
        """Run time in seconds of the undone stages."""
        return sum(self.reference.seconds[each] for each in self.forgotten)

    @property
    def cache(self) -> Path:
        """Folder of DVC's content-addressed files."""
        return self.repo / ".dvc/cache/files/md5"

    def cached(self, *stages: str) -> set[Path]:
        """Return the files of DVC's cache that the stages' outputs consist of."""
        found = set()
        for out in (out for stage in stages for out in self.reference.lock[stage]["outs"]):
            listing = self.cache / out["md5"][:2] / out["md5"][2:]
            whole = listing.suffix == ".dir" and listing.exists()
            names = [each["md5"] for each in json.loads(listing.read_text())] if whole else []
            found |= {listing, *(self.cache / name[:2] / name[2:] for name in names)}
        return found

    def stage(self, name: str, **env: str) -> Running:
        """Start a stage with the command that DVC uses, but without DVC."""
        words = shlex.split(self.reference.lock[name]["cmd"])
        return self.start(sys.executable, *words[1:], DVC_STAGE=name, **env)

    def dvc(self, **env: str) -> Running:
        """Start `dvc repro`."""
        return self.start(sys.executable, "-m", "dvc", "repro", **env)

    def flow(self, *arguments: str, own_server: bool = False) -> Running:
        """Start the flow, with the shared Prefect server or one of its own."""
        there = {} if own_server else {"PREFECT_API_URL": self.server}
        return self.start(sys.executable, "-m", "epigram.cli", "run", *arguments, **there)

    def repair(self) -> Running:
        """Start the command behind `make repair`."""
        return self.start(sys.executable, "-m", "epigram.runner.dvc.repair")


def lock_of(repo: Path) -> dict[str, Any]:
    """Return the stages of dvc.lock in file order; empty if the file is missing."""
    path = repo / "dvc.lock"
    return dict((yaml.safe_load(path.read_text()) or {}).get("stages", {})) if path.exists() else {}


def digests(folder: Path, *parts: str) -> dict[str, str]:
    """Return the MD5 of every file in the given parts of a folder; for a symbolic link, its target."""
    found = {}
    for path in (path for part in parts for path in sorted((folder / part).rglob("*"))):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.md5(path.read_bytes()).hexdigest()
    return found


def prepare(folder: Path, server: str = "", systems: tuple[str, ...] = (SIMPLE, NEURAL)) -> Reference:
    """Create the repository in `folder`, run it with DVC and, if there is a Prefect server, once through the flow."""
    repo, mirror = folder / "repo", folder / "mirror"
    _lay_out(repo, mirror, systems)
    (folder / "tmp").mkdir()
    env = environment(repo, EPIGRAM_MIRROR=str(mirror), PREFECT_API_URL=server, TMPDIR=str(folder / "tmp"))
    seconds = _repro(repo, env)
    if server:
        subprocess.run([sys.executable, "-m", "epigram.cli", "run", "--name", EARLIER], cwd=repo, env=env, check=True)
    _commit(repo, "run")
    lock = lock_of(repo)
    outs = {out["path"]: stage for stage, entry in lock.items() for out in entry["outs"]}
    needs = {
        stage: frozenset(
            outs[out] for out in outs if any(f"{out}/".startswith(f"{dep['path']}/") for dep in entry["deps"])
        )
        for stage, entry in lock.items()
    }
    return Reference(
        repo, folder / "tmp", mirror, lock, digests(repo, *outs), digests(repo, "runs"), needs=needs, seconds=seconds
    )


def _lay_out(repo: Path, mirror: Path, systems: tuple[str, ...]) -> None:
    for part in (*PARTS, *FOLDERS):
        source, to = ROOT / part, repo / part
        to.parent.mkdir(parents=True, exist_ok=True)
        if part in FOLDERS:
            to.mkdir()
            (to / ".gitkeep").touch()
        elif source.is_dir():
            shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, to)
    mirror.mkdir()
    rows = b"".join((ROOT / "data/pocket/pocket_zh.jsonl").read_bytes().splitlines(keepends=True)[:ROWS])
    (mirror / "drill.jsonl").write_bytes(rows)
    source = yaml.safe_load((ROOT / "data/sources/pocket_zh.yaml").read_text())
    file = {"path": "drill.jsonl", "mirror": "drill.jsonl", "sha256": hashlib.sha256(rows).hexdigest()}
    (repo / "data/sources").mkdir()
    (repo / "data/sources/drill.yaml").write_text(yaml.safe_dump({**source, "name": "drill", "files": [file]}))
    params = yaml.safe_load((ROOT / "params.yaml").read_text()) | PARAMS
    params["systems"] = {name: {"view": "token"} for name in systems}
    (repo / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    subprocess.run(["git", "init", "--quiet"], cwd=repo, check=True)
    _commit(repo, "start")


def _commit(repo: Path, message: str) -> None:
    subprocess.run(["git", "add", "--all"], cwd=repo, check=True)
    names = ["-c", "user.name=drill", "-c", "user.email=drill@localhost"]
    subprocess.run(["git", *names, "commit", "-qm", message], cwd=repo, check=True)


def _repro(repo: Path, env: dict[str, str]) -> dict[str, float]:
    """Run `dvc repro`; return the run time of every stage in seconds."""
    command = [sys.executable, "-m", "dvc", "repro"]
    child = subprocess.Popen(command, cwd=repo, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said, marks = [], []
    for line in child.stdout or ():
        said.append(line)
        if line.startswith("Running stage '"):
            marks.append((line.split("'")[1], time.monotonic()))
    if child.wait():
        raise RuntimeError(f"the reference run failed:\n{''.join(said)}")
    ends = [at for _, at in marks[1:]] + [time.monotonic()]
    return {name: end - at for (name, at), end in zip(marks, ends, strict=True)}
