"""Two processes that train one model and are ended on the way resume with the same bits, and none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from epigram.core.files import read_json, sha256, write_json
from tests.support.text_samples import EN

ROOT = Path(__file__).parents[3]
STEPS = 5, 10, 15  # of the checkpoints after which the training is ended
PARAMS: dict[str, Any] = {
    "views": {"v": {"tokenizer": "token"}},
    "systems": {"textcnn": {"view": "v", "train": {"epochs": 6, "patience": 99, "batch_size": 8, "processes": 2}}},
    "seeds": [0, 1],
}


class Ending(NamedTuple):
    """Signal to the command, or to the process with `rank`; exit code, and beginning of the message."""

    number: signal.Signals
    rank: int | None
    code: int
    said: str


STOPPED = "stopped by SIGTERM; run it again to resume"
ENDINGS = (
    Ending(signal.SIGTERM, None, 75, STOPPED),
    Ending(signal.SIGTERM, 1, 75, STOPPED),  # all stop after the same step
    Ending(signal.SIGKILL, 1, 137, "killed by"),
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the supervisor needs Linux")


@contextmanager
def stage(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the stage in `folder`, with a checkpoint after each step."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path, "EPIGRAM_CHECKPOINT_SECONDS": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "epigram.stages.train", "textcnn", "out", "pretrained", "models"]
    with subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def members(folder: Path) -> list[int]:
    """Return the ids of the running processes of `folder`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == folder and "\nState:\tZ" not in (entry / "status").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return sorted(found)


def of_rank(folder: Path, rank: int) -> int:
    """Return the id of the process with `rank` that computes: its parent, with the same variables, supervises it."""
    wanted = [each for each in members(folder) if f"\0RANK={rank}\0" in Path(f"/proc/{each}/environ").read_text()]
    return wanted[-1]


def weights(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): sha256(file) for file in sorted(folder.rglob("model.safetensors"))}


@pytest.fixture
def folder(encoded: Any, tmp_path: Path) -> Path:
    encoded({**EN, "train": EN["train"] * 8}, "en")
    (tmp_path / "pretrained").mkdir()
    write_json(tmp_path / "pretrained/about.json", {"steps": 0})
    params = yaml.safe_load((ROOT / "params.yaml").read_text()) | PARAMS
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    return tmp_path


def test_ended_three_times_and_resumed_the_weights_have_the_same_bits(folder: Path) -> None:
    with stage(folder) as whole:
        printed, errors = whole.communicate(timeout=300)
    assert whole.returncode == 0, errors
    assert printed.count("textcnn seed 0: dev") == printed.count("textcnn seed 1: dev") == 1
    assert read_json(folder / "models/seed-0/manifest.json")["training"]["processes"] == 2
    expected = weights(folder / "models")
    assert len(expected) == 2
    (folder / "models").rename(folder / "whole")
    for step, ending in zip(STEPS, ENDINGS, strict=True):
        with stage(folder) as ended:
            wait_for_step(folder, step)
            if ending.rank is None:
                ended.send_signal(ending.number)
            else:
                os.kill(of_rank(folder, ending.rank), ending.number)
            printed, errors = ended.communicate(timeout=60)
        assert ended.returncode == ending.code
        assert len(errors.splitlines()) == 1 and errors.startswith(f"error: {ending.said}")
        assert members(folder) == []
        assert ("textcnn seed 0: resuming from step" in printed) == (step != STEPS[0])
    with stage(folder) as resumed:
        printed, errors = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, errors
    assert "textcnn seed 0: resuming from step" in printed
    assert weights(folder / "models") == expected


def wait_for_step(folder: Path, step: int) -> None:
    """Wait until the training of the first seed has a checkpoint of that step or a later one."""
    end = time.monotonic() + 120
    while not any(int(path.name[5:13]) >= step for path in folder.glob(".epigram/state/train/*/*/seed-0-steps/step-*")):
        assert time.monotonic() < end
        time.sleep(0.01)
