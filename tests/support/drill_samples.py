"""Bench of the fault drill whose commands are short scripts instead of DVC, the flow and the stages."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.drill.bench import Bench
from tests.drill.place import Running
from tests.drill.reference import NEURAL, Reference

STAGES = ("download", "pretrain@token", f"train@{NEURAL}")
OUTPUTS = {
    "download": "data/raw",
    "pretrain@token": "data/pretrained/token",
    f"train@{NEURAL}": f"data/models/{NEURAL}",
}
IGNORED = "/data/\n/.epigram/\n/.dvc/\n/runs/\n"
ENDED = "true"  # a command that ends before the fault is injected
Scripts = dict[str, str | list[str]]


class ScriptedBench(Bench):
    """Bench whose `scripts` are bash code for `dvc`, `flow`, `repair` and `stage`; a list has one entry per call.

    A command that prints "ready" is returned after it has printed it; an `ENDED` command is returned after it has
    ended.
    """

    def __init__(self, folder: Path, scripts: Scripts) -> None:
        super().__init__(folder / "bench", reference(folder), "", mounted=False)
        self.scripts = {name: [each] if isinstance(each, str) else list(each) for name, each in scripts.items()}
        self.restore("test")

    def dvc(self, *_: str, **env: str) -> Running:
        return self._next("dvc", **env)

    def flow(self, *_: str, own_server: bool = False, **env: str) -> Running:
        return self._next("flow", **env)

    def repair(self) -> Running:
        return self._next("repair")

    def stage(self, name: str, *_: str, **env: str) -> Running:
        return self._next("stage", "epigram.stages.train", **env)

    @contextlib.contextmanager
    def full(self, left: int) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def read_only(self, folder: Path) -> Iterator[None]:
        yield

    def _next(self, name: str, *words: str, **env: str) -> Running:
        scripts = self.scripts[name]
        script = self.folder / f"script-{len(self.outputs)}.sh"
        text = scripts.pop(0) if len(scripts) > 1 else scripts[0]
        script.write_text(text)
        running = self.start("bash", str(script), *words, **env)
        if text == ENDED:
            running.child.wait()
        elif "ready" in text:
            running.until(lambda said: "ready" in said)
        return running


def eventually(condition: Callable[[], bool], seconds: float = 2.0) -> bool:
    end = time.monotonic() + seconds
    while not (true := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    return true


def reference(folder: Path) -> Reference:
    """Return a repository with three stages that have each written one file."""
    repo = folder / "reference"
    lock = {name: _done(repo, name) for name in STAGES}
    _write(repo / "dvc.lock", yaml.safe_dump({"schema": "2.0", "stages": lock}))
    _write(repo / ".gitignore", IGNORED)
    _write(repo / "params.yaml", yaml.safe_dump({"systems": {NEURAL: {"view": "token"}}}))
    _write(folder / "mirror" / "drill.jsonl", "x" * 20000)
    (folder / "tmp").mkdir()
    for command in ("init --quiet", "add --all", "-c user.name=t -c user.email=t@t commit -qm start"):
        subprocess.run(["git", *command.split()], cwd=repo, check=True)
    return Reference(
        repo=repo,
        tmp=folder / "tmp",
        mirror=folder / "mirror",
        lock=lock,
        outputs={f"{OUTPUTS[name]}/result.txt": _digest(name) for name in STAGES},
        runs={},
        needs=dict(zip(STAGES, (frozenset[str](), *(frozenset([name]) for name in STAGES)), strict=False)),
        seconds=dict.fromkeys(STAGES, 0.05),
    )


def _done(repo: Path, name: str) -> dict[str, Any]:
    """Write a stage's output and its copy in the cache; return its entry in dvc.lock."""
    digest = _digest(name)
    _write(repo / OUTPUTS[name] / "result.txt", name)
    _write(repo / ".dvc/cache/files/md5" / digest[:2] / digest[2:], name)
    return {"cmd": f"python -m epigram.stages.{name}", "deps": [], "outs": [{"path": OUTPUTS[name], "md5": digest}]}


def _digest(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
