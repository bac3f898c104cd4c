"""State of a repository with a champion (runs, tags, branch and link), and what was lost of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.drill.bench import digests

LINKS = {"champion", "latest"}  # in runs/; they may point to another run afterwards
BRANCH = "refs/heads/champion"
TAG = "refs/tags/champion@v{}.0.0"


@dataclass(frozen=True)
class Standing:
    """Digests of all files of all runs, commits of the tags, and the user's own commit and changes."""

    runs: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    tree: str = ""


def standing(repo: Path) -> Standing:
    """Return the state of `repo`."""
    runs = {name: digest for name, digest in digests(repo, "runs").items() if Path(name).name not in LINKS}
    lines = _git(repo, "for-each-ref", "--format=%(refname) %(objectname)", "refs/tags")
    tree = "\n".join(_git(repo, "rev-parse", "HEAD") + _git(repo, "status", "--porcelain"))
    return Standing(runs, dict(line.split(" ") for line in lines), tree)


def lost(repo: Path, before: Standing) -> list[str]:
    """Return what is lost or changed since an earlier state."""
    now = standing(repo)
    losses = [f"run changed: {name}" for name, digest in before.runs.items() if now.runs.get(name) != digest]
    losses += [f"tag moved: {name}" for name, commit in before.tags.items() if now.tags.get(name) != commit]
    if now.tree != before.tree:
        losses.append(f"the user's commit or changes differ: {now.tree!r} instead of {before.tree!r}")
    return losses


def record(repo: Path, name: str = BRANCH) -> dict[str, Any]:
    """Return champion.json at a branch or tag; empty if there is none."""
    said = _git(repo, "show", f"{name}:champion.json")
    return dict(json.loads("\n".join(said))) if said else {}


def model_hash(model: Path) -> str:
    """Return the SHA-256 of a model's manifest; empty unless all files in the manifest exist with their hashes."""
    manifest = model / "manifest.json"
    if not manifest.is_file():
        return ""
    files = json.loads(manifest.read_text())["sha256"]
    whole = all((model / name).is_file() and _sha256(model / name) == digest for name, digest in files.items())
    return _sha256(manifest) if whole else ""


def in_use(repo: Path, models: set[str]) -> list[str]:
    """Return a loss unless runs/champion is one of `models`, complete: this must hold at every moment."""
    link = repo / "runs/champion"
    if not link.exists():
        return ["runs/champion leads nowhere"]
    found = model_hash(link / "model")
    return [] if found in models else [f"runs/champion/model is {found[:8] or 'not whole'}"]


def settled(repo: Path, number: int | None = None, model: str = "") -> list[str]:
    """Return losses unless the branch, its tags and runs/champion agree.

    `number` and `model` are the expected number and model hash of the champion.
    """
    now = record(repo)
    if not now:
        return ["the branch champion has no champion.json"]
    losses = [] if number in {None, now["number"]} else [f"champion {now['number']} instead of {number}"]
    if model and now["hashes"]["model"] != model:
        losses.append(f"the champion's model is {now['hashes']['model'][:8]} instead of {model[:8]}")
    link = repo / "runs/champion"
    if not link.is_symlink() or link.readlink() != Path(now["run"]):
        losses.append(f"runs/champion does not point to {now['run']}")
    return losses + in_use(repo, {now["hashes"]["model"]}) + _history(repo, now["number"])


def whole_runs(repo: Path, names: list[str]) -> list[str]:
    """Return a loss unless each run has its own name and a complete folder."""
    if len(set(names)) < 2:
        return [f"two runs with one name: {', '.join(names)}"]
    return [f"runs/{name} is not whole" for name in names if not _whole(repo / "runs" / name)]


def _whole(run: Path) -> bool:
    summary = run / "summary.json"
    named = summary.is_file() and json.loads(summary.read_text())["name"] == run.name
    return named and (run / "report.html").is_file() and bool(model_hash(run / "model"))


def _history(repo: Path, number: int) -> list[str]:
    """Return losses unless every champion up to `number` has its tag and git's objects are complete."""
    numbers = range(1, number + 1)
    losses = [f"no champion {each}" for each in numbers if record(repo, TAG.format(each)).get("number") != each]
    if _git(repo, "rev-parse", f"{BRANCH}^{{commit}}") != _git(repo, "rev-parse", f"{TAG.format(number)}^{{commit}}"):
        losses.append(f"the branch champion is not at the tag of champion {number}")
    command = ["git", "fsck", "--connectivity-only", "--no-dangling"]
    done = subprocess.run(command, cwd=repo, capture_output=True, text=True, check=False)
    return losses + [f"git fsck: {line}" for line in done.stderr.splitlines() if done.returncode]


def _git(repo: Path, *arguments: str) -> list[str]:
    """Return the lines that a git command prints; empty if it fails."""
    done = subprocess.run(["git", *arguments], cwd=repo, capture_output=True, text=True, check=False)
    return [] if done.returncode else done.stdout.splitlines()


def _sha256(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
