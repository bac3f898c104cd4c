"""Small repository with a pipeline whose stages follow instructions of the test."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.prefect_home import add_database

HERE = Path(__file__).resolve().parents[2]
# The parts of the project that another repository needs to run its pipeline.
PARTS = (
    "dvc.yaml",
    "params.yaml",
    "prefect.toml",
    "src",
    "flows",
    "tasks",
    ".dvc/config",
    ".dvc/.gitignore",
    ".dvcignore",
    ".gitignore",
)

DVC_YAML = """
stages:
  gather:
    cmd: python step.py gather out/gather ${dataset}
    params: [download]
    deps: [step.py, "data/sources/${dataset}.yaml", data/local]
    outs: [out/gather]
  cut:
    foreach: ${views}
    do:
      cmd: python step.py cut@${key} out/cut/${key} ${item.tokenizer}
      deps: [out/gather]
      outs: ["out/cut/${key}"]
  fit:
    foreach: ${systems}
    do:
      cmd: python step.py fit@${key} out/fit/${key}
      meta: {gpus: one}
      params: [seeds, "systems.${key}"]
      deps: ["out/cut/${item.view}"]
      outs: ["out/fit/${key}"]
  judge:
    cmd: python step.py judge out/judge
    params: [compare]
    deps: [out/fit]
    outs: [out/judge]
"""

NEEDS: dict[str, set[str]] = {
    "gather": set(),
    "cut@token": {"gather"},
    "cut@wordpiece": {"gather"},
    "fit@mlp": {"cut@token"},
    "fit@bert": {"cut@wordpiece"},
    "judge": {"fit@mlp", "fit@bert"},
}

PARAMS = """\
# every value
dataset: toy
seeds: [0]

views:
  token: {tokenizer: token}
  wordpiece: {tokenizer: wordpiece}

systems:                 # name → view
  mlp: {view: token}
  bert: {view: wordpiece}

download: {tries: 4}
compare: {alpha: 0.05}
"""

STEP = """
import json, os, pathlib, subprocess, sys, time

name, out, *rest = sys.argv[1:]
told = pathlib.Path(os.environ["TOY"])
behaviour = json.loads((told / "behaviour.json").read_text()).get(name, {})
mark = lambda what: (told / "journal.jsonl").open("a").write(json.dumps([name, what, time.time(), os.getpid()]) + "\\n")
mark("begin")
for line in behaviour.get("say", []):
    print(line)
for variable in behaviour.get("show", []):
    mark(f"{variable}={os.environ.get(variable)}")
if behaviour.get("child"):
    (told / "child.part").write_text(str(subprocess.Popen(["sleep", "600"]).pid))
    (told / "child.part").rename(told / "child")  # the test reads it as soon as it exists
time.sleep(behaviour.get("sleep", 0))
tries = sum(json.loads(line)[:2] == [name, "begin"] for line in (told / "journal.jsonl").open())
codes = behaviour.get("codes", [])
if tries <= len(codes) and codes[tries - 1]:
    mark("failed")
    print("error: told to fail", file=sys.stderr)
    if "outcome" in behaviour:
        record = {"stage": name, "code": codes[tries - 1], "state": "Failed", **behaviour["outcome"]}
        pathlib.Path(os.environ["EPIGRAM_OUTCOME"]).write_text(json.dumps(record))
    if codes[tries - 1] < 0:
        os.kill(os.getpid(), -codes[tries - 1])
    sys.exit(codes[tries - 1])
folder = pathlib.Path(out)
folder.mkdir(parents=True)
(folder / "result.txt").write_text(" ".join([name, *rest]))
for file, text in behaviour.get("files", {}).items():
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(text)
mark("end")
"""


def command_env() -> dict[str, str]:
    """Return the environment of a user's shell: this interpreter, this checkout's code, no Prefect server."""
    own = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{HERE}{os.pathsep}{HERE / 'src'}",
    }
    return {key: value for key, value in os.environ.items() if key != "PREFECT_API_URL"} | own


def add_flows(root: Path) -> None:
    """Copy flows and tasks into the repository `root`, as they are in a user's project."""
    for name in ("flows", "tasks"):
        shutil.copytree(HERE / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))


class Toy:
    """The repository `root`, with the instructions and the journal of its stages in `told`."""

    def __init__(self, root: Path, told: Path) -> None:
        self.root, self.told = root, told
        self.tell({})

    def tell(self, behaviour: dict[str, dict[str, Any]]) -> None:
        """Set what each stage does besides writing its output.

        say, show (variables for the journal), sleep, child, files, codes (one per attempt), outcome (summary and
        details; without it, a stage that fails writes no outcome, like a user's own command).
        """
        (self.told / "behaviour.json").write_text(json.dumps(behaviour))

    def commit(self) -> None:
        """Commit everything."""
        self.shell("git", "add", "--all")
        self.shell("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--message", "results")

    def journal(self, what: str = "begin") -> list[str]:
        """Return the stages with the event `what` (begin, end or failed), in order, since `forget`."""
        return [name for name, event, *_ in self.events() if event == what]

    def events(self) -> list[tuple[str, str, float, int]]:
        """Return (stage, event, time, process id) of each event since `forget`."""
        file = self.told / "journal.jsonl"
        return [tuple(json.loads(line)) for line in file.open()] if file.exists() else []

    def forget(self) -> None:
        """Empty the journal."""
        (self.told / "journal.jsonl").unlink(missing_ok=True)

    def shell(self, *command: str) -> str:
        """Run a command in the repository."""
        return subprocess.run(command, cwd=self.root, env=self.env, check=True, capture_output=True, text=True).stdout

    def command(self, *arguments: str, name: str = "run", **options: Any) -> subprocess.Popen[str]:
        """Start `epigram NAME` in the repository."""
        if not (self.told / "prefect").exists():
            add_database(self.told / "prefect")
        # As in a terminal: processes that a shell starts in the background ignore Ctrl-C, and their children inherit
        # that.
        command = ["env", "--default-signal=INT", sys.executable, "-m", "epigram.cli", name, *arguments]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.env} | options
        return subprocess.Popen(command, cwd=self.root, text=True, **options)

    def change(self, *stages: str) -> None:
        """Change a parameter of these stages, each a `fit@…` or `judge`, and of no other stage."""
        path = self.root / "params.yaml"
        text = path.read_text()
        for stage in stages:
            old = f" {stage.partition('@')[2]}: {{" if "@" in stage else "compare: {alpha: 0.05"
            new = f"{old}train: {{epochs: 2}}, " if "@" in stage else "compare: {alpha: 0.01"
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of commands in the repository: its own Prefect home, this checkout's code."""
        return command_env() | {"TOY": str(self.told), "PREFECT_HOME": str(self.told / "prefect")}


def copied(root: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """Return a copy of the repository `root` under `to`, without instructions."""
    shutil.copytree(root, to / "repo")
    (to / "told").mkdir()
    monkeypatch.setenv("TOY", str(to / "told"))
    return Toy(to / "repo", to / "told")
