"""Repository from which every trial starts: the project's code, a small corpus, two systems, all stages finished."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.toy import PARTS

ROOT = Path(__file__).resolve().parents[2]
# dependencies that are empty here
FOLDERS = ("data/pocket", "data/local", "data/pos_versions", "data/students", "data/evaluated_students")
ROWS = 300
SIMPLE, NEURAL = "tfidf_svm", "dmsp"
LEARNING = (f"train@{NEURAL}", "pretrain@token")  # the stages that write checkpoints
PRETRAIN = {"width": 32, "depth": 1, "heads": 2, "hidden": 32, "epochs": 4, "batch_size": 16}
PARAMS = {
    "dataset": "drill",
    "seeds": [0],
    "views": {"token": {"tokenizer": "token", "pretrain": PRETRAIN}},
    "students": {},
    "train": {"epochs": 3},
    "prune": {"epochs": 1},
    "download": {"tries": 2, "timeout": 1},
    "evaluate": {"resamples": 200, "timing_texts": 16},
}
EARLIER = "earlier"  # name of a run that must still exist after every fault


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

    def after(self, stage: str) -> set[str]:
        """Return the stage and all stages that depend on it."""
        found = {stage}
        for name, needs in self.needs.items():  # in the order of the pipeline
            if needs & found:
                found.add(name)
        return found


def lock_of(repo: Path) -> dict[str, Any]:
    """Return the stages of dvc.lock in file order; empty if the file is missing."""
    path = repo / "dvc.lock"
    return dict((yaml.safe_load(path.read_text()) or {}).get("stages", {})) if path.exists() else {}


def digests(folder: Path, *parts: str) -> dict[str, str]:
    """Return the MD5 of every file in the given parts of a folder; for a symbolic link, its target."""
    found = {}
    for part in parts:
        for path in sorted((folder / part).rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_symlink():
                found[name] = f"-> {path.readlink()}"
            elif path.is_file():
                found[name] = hashlib.md5(path.read_bytes()).hexdigest()
    return found


def environment(repo: Path, **more: str) -> dict[str, str]:
    """Return a user's shell environment with this interpreter, the repository's code and DVC's state beside it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "GIT_", "EPIGRAM_"))}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{repo}{os.pathsep}{repo / 'src'}",
        "PYTHONUNBUFFERED": "1",
        "DVC_SITE_CACHE_DIR": str(repo.parent / "site"),
        "DVC_NO_ANALYTICS": "1",
        "DO_NOT_TRACK": "1",
        "OMP_NUM_THREADS": "1",
        "EPIGRAM_CHECKPOINT_SECONDS": "0",
        **more,
    }


def prepare(folder: Path, server: str = "", systems: tuple[str, ...] = (SIMPLE, NEURAL)) -> Reference:
    """Create the repository in `folder`, run it with DVC and, if there is a Prefect server, once through the flow."""
    repo, mirror = folder / "repo", folder / "mirror"
    _lay_out(repo, mirror, systems)
    (folder / "tmp").mkdir()
    env = environment(repo, EPIGRAM_MIRROR=str(mirror), PREFECT_API_URL=server, TMPDIR=str(folder / "tmp"))
    seconds = _repro(repo, env)
    if server:
        _call(repo, env, sys.executable, "-m", "epigram.cli", "run", "--name", EARLIER)
    _commit(repo, env, "run")
    lock = lock_of(repo)
    outs = {out["path"]: stage for stage, entry in lock.items() for out in entry["outs"]}
    return Reference(
        repo=repo,
        tmp=folder / "tmp",
        mirror=mirror,
        lock=lock,
        outputs=digests(repo, *outs),
        runs=digests(repo, "runs"),
        needs={stage: _needs(entry, outs) for stage, entry in lock.items()},
        seconds=seconds,
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
    rows = (ROOT / "data/pocket/pocket_zh.jsonl").read_bytes().splitlines(keepends=True)[:ROWS]
    (mirror / "drill.jsonl").write_bytes(b"".join(rows))
    source = yaml.safe_load((ROOT / "data/sources/pocket_zh.yaml").read_text())
    digest = hashlib.sha256(b"".join(rows)).hexdigest()
    file = {"path": "drill.jsonl", "mirror": "drill.jsonl", "sha256": digest}
    (repo / "data/sources").mkdir()
    (repo / "data/sources/drill.yaml").write_text(yaml.safe_dump({**source, "name": "drill", "files": [file]}))
    params = yaml.safe_load((ROOT / "params.yaml").read_text()) | PARAMS
    params["systems"] = {name: {"view": "token"} for name in systems}
    (repo / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    subprocess.run(["git", "init", "--quiet"], cwd=repo, check=True)
    _commit(repo, dict(os.environ), "start")


def _commit(repo: Path, env: dict[str, str], message: str) -> None:
    _call(repo, env, "git", "add", "--all")
    _call(repo, env, "git", "-c", "user.name=drill", "-c", "user.email=drill@localhost", "commit", "-qm", message)


def _call(repo: Path, env: dict[str, str], *command: str) -> None:
    done = subprocess.run(command, cwd=repo, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the reference run failed: {' '.join(command)}\n{done.stdout}{done.stderr}")


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


def _needs(entry: dict[str, Any], outs: dict[str, str]) -> frozenset[str]:
    """Return the stages whose outputs are dependencies of a dvc.lock entry, or inside of a dependency."""
    deps = [dep["path"] for dep in entry["deps"]]
    return frozenset(stage for out, stage in outs.items() if any(f"{out}/".startswith(f"{dep}/") for dep in deps))


def cache_files(lock: dict[str, Any], cache: Path) -> dict[str, set[Path]]:
    """Return the files of DVC's cache that each stage's outputs consist of."""
    found: dict[str, set[Path]] = {}
    for stage, entry in lock.items():
        for out in entry["outs"]:
            listing = cache / out["md5"][:2] / out["md5"][2:]
            names = [each["md5"] for each in json.loads(listing.read_text())] if listing.suffix == ".dir" else []
            found.setdefault(stage, set()).update([listing, *(cache / name[:2] / name[2:] for name in names)])
    return found
