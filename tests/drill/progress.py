"""Training progress lost by kill -9: the steps that were done, minus those from which the next run resumes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

LIMIT = 1  # steps; the drill requests a checkpoint after every step (EPIGRAM_CHECKPOINT_SECONDS=0)
STEP = re.compile(r"^\.?step-(\d+)")  # with a leading dot: still being written
RESUMED = re.compile(r"(?:goes on|resuming) from step ([\d,]+) of ([\d,]+)")
EPOCH = re.compile(r"epoch (\d+)/(\d+) ")  # printed at the end of an epoch; the drill's epochs have fewer than 20 steps


@dataclass(frozen=True)
class Reached:
    """Progress of a training when it was killed; times are in seconds since 1970."""

    began: float
    killed: float
    said: str
    checkpoints: dict[int, float] = field(default_factory=dict)  # step → time at which its checkpoint was complete
    writing: int = 0  # the step whose checkpoint was being written
    finished: bool = False  # the weights were written: nothing was left to train


@dataclass(frozen=True)
class Lost:
    """Steps and seconds of training that the next run had to repeat."""

    steps: int
    seconds: float
    losses: tuple[str, ...] = ()


def reached(state: Path, outputs: list[Path], began: float, killed: float, said: str) -> Reached:
    """Read the progress that a killed training left in its `state` folder."""
    checkpoints, writing = {}, 0
    for path in state.rglob("*step-*"):
        note, step = path / "state.json", STEP.match(path.name)
        if step and path.name.startswith("."):
            writing = max(writing, int(step[1]))
        elif step and note.exists():
            checkpoints[int(step[1])] = note.stat().st_mtime
    finished = any(state.rglob("seed-*.json")) or all(path.exists() for path in outputs)
    return Reached(began, killed, said, checkpoints, writing, finished)


def measure(killed: Reached, said_next: str) -> Lost:
    """Compare the steps done before the kill with the step from which the next run resumes."""
    if killed.finished:
        return Lost(0, 0.0)
    found = RESUMED.search(said_next)
    resumed, total = (int(each.replace(",", "")) for each in found.groups()) if found else (0, 0)
    done = max(_printed(killed.said, total), killed.writing, *killed.checkpoints, 0)
    seconds = killed.killed - killed.checkpoints.get(resumed, killed.began)
    return Lost(done - resumed, max(0.0, seconds), tuple(_losses(killed, done, resumed, found is not None)))


def _printed(said: str, total: int) -> int:
    """Return the last step that the training printed."""
    epochs = EPOCH.findall(said)
    return int(epochs[-1][0]) * total // int(epochs[-1][1]) if epochs else 0


def _losses(killed: Reached, done: int, resumed: int, used: bool) -> list[str]:
    losses = []
    if not used and (done or EPOCH.search(killed.said)):
        losses.append(f"no checkpoint was used: the next run began anew after step {done}")
    elif not 0 <= done - resumed <= LIMIT:
        losses.append(f"{done - resumed} steps lost: {done} were done, the next run resumes from step {resumed}")
    kept = sorted(killed.checkpoints)[-2:]
    if len(kept) == 2 and kept[1] - kept[0] > LIMIT:
        losses.append(f"checkpoints of steps {kept[0]} and {kept[1]} are more than {LIMIT} step apart")
    return losses
