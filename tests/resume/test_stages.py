"""Stages that are stopped and restarted keep their finished work and write the same output."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from benchmarks.corpora import chain
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.models.serialization import load
from epigram.pruning.depth import layer_accuracies
from epigram.text.dataset.encoded_dataset import View

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SIZES = {"width": 32, "depth": 5, "heads": 2, "hidden": 32}
SYSTEMS = {"transformer": {"view": "token", "encoder": SIZES, "train": {"epochs": 4, "patience": 99}}}
COMMANDS = {
    "pretrain": "pretrain token data/encoded/token data/pretrained/token",
    "train": "train transformer data/encoded/token data/pretrained/token data/models/transformer",
    "prune": "prune transformer data/encoded/token data/models/transformer data/pruned/transformer",
}
OUTPUTS = {"pretrain": "data/pretrained/token", "train": "data/models/transformer", "prune": "data/pruned/transformer"}


class Place:
    """Folder in which stages run."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def start(self, stage: str, often: str = "0") -> subprocess.Popen[str]:
        """Start a stage that writes a checkpoint every `often` seconds; 0 means after every step."""
        own = {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", "EPIGRAM_PROGRESS": "lines"}
        env = {**os.environ, **own, "EPIGRAM_CHECKPOINT_SECONDS": often}
        command = [sys.executable, "-m", *f"epigram.stages.{COMMANDS.get(stage, stage)}".split()]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=self.root, env=env, **pipes)

    def run(self, stage: str, often: str = "1000") -> str:
        """Run a stage to its end; return its output."""
        said, complaint = (child := self.start(stage, often)).communicate()
        assert child.returncode == 0, complaint
        return said

    def set(self, **sections: Any) -> None:
        """Change sections of params.yaml."""
        path = self.root / "params.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | sections))

    def digest(self, stage: str) -> dict[str, str]:
        """Return the SHA-256 of every file that the stage wrote."""
        folder = self.root / OUTPUTS[stage]
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def states(self, stage: str) -> list[Path]:
        """Return the checkpoints of the stage; folders may disappear during the search."""
        folders = (Path(folder) for folder, _, _ in os.walk(self.root / ".epigram" / "state" / stage))
        return sorted(folder for folder in folders if folder.name.startswith("step-"))

    def stop(self, stage: str, number: signal.Signals, after: int = 2) -> tuple[int, str]:
        """Start the stage and send the signal after `after` new checkpoints; return exit code and stderr."""
        before, child = {path.name for path in self.states(stage)}, self.start(stage)
        while len({path.name for path in self.states(stage)} - before) < after and child.poll() is None:
            time.sleep(0.01)
        child.send_signal(number)
        _, complaint = child.communicate()
        return child.returncode, complaint


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return the encoded pocket corpus, and the outputs of uninterrupted stages."""
    root = tmp_path_factory.mktemp("place")
    (root / "data").mkdir()
    for name in ("sources", "pocket"):
        (root / "data" / name).symlink_to(ROOT / "data" / name)
    shutil.copyfile(ROOT / "params.yaml", root / "params.yaml")
    place = Place(root)
    pretrained = {"width": 32, "depth": 2, "heads": 2, "hidden": 32, "epochs": 2}
    place.set(dataset="pocket_en", views={"token": {"tokenizer": "token", "pretrain": pretrained}}, systems=SYSTEMS)
    stages = (
        "download data/sources/pocket_en.yaml data/raw",
        "validate data/raw data/validated",
        "pos_table data/validated data/pos_versions data/pos",
        "augment data/validated data/augmented",
        "encode token data/validated data/augmented data/pos data/encoded/token",
    )
    chain(root, *map(str.split, stages))
    for stage in OUTPUTS:
        place.run(stage)
    return place


@pytest.fixture
def place(prepared: Place, tmp_path: Path) -> Place:
    """Return a copy of the prepared folder without checkpoints of any stage."""
    shutil.copytree(prepared.root, tmp_path / "place", symlinks=True)
    made = Place(tmp_path / "place")
    assert not any(made.states(stage) for stage in OUTPUTS)
    return made


@pytest.mark.parametrize(
    ("stage", "number", "code", "said"),
    [
        ("pretrain", signal.SIGTERM, 75, "error: stopped by SIGTERM; run it again to resume\n"),
        ("train", signal.SIGINT, 130, "error: interrupted\n"),
        ("train", signal.SIGKILL, -9, ""),
    ],
)
def test_a_stopped_stage_goes_on(
    place: Place, prepared: Place, stage: str, number: signal.Signals, code: int, said: str
) -> None:
    assert place.stop(stage, number) == (code, said)
    assert place.states(stage)
    assert "resuming from step" in place.run(stage)
    assert place.digest(stage) == prepared.digest(stage)
    assert not (place.root / ".epigram" / "state" / stage / OUTPUTS[stage].rpartition("/")[2]).exists()


def test_a_stage_that_is_asked_to_stop_writes_where_it_stands(place: Place) -> None:
    child = place.start("train", "1000")
    assert child.stdout is not None
    while "epoch" not in child.stdout.readline():  # notes come before its first progress line
        assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    child.communicate()
    assert (child.returncode, len(place.states("train"))) == (75, 1)


def lowest(place: Place) -> float:
    """Return the accuracy of the weakest layer; as the threshold, it drops exactly that layer."""
    torch.manual_seed(0)
    saved, view = load(place.root / OUTPUTS["train"] / "seed-0"), View.load(place.root / "data/encoded/token")
    train, dev = (batches_of(view, split, saved.frame) for split in ("train", "dev"))
    return min(layer_accuracies(saved.model, train, dev, len(saved.labels)))


def test_pruning_goes_on(place: Place, prepared: Place) -> None:
    place.set(prune={"threshold": lowest(place), "rule": "equation", "epochs": 4, "tolerance": 0.9})
    place.run("prune")
    whole = place.digest("prune")
    assert whole != prepared.digest("prune"), "layers were dropped, and the rest trained"
    shutil.rmtree(place.root / OUTPUTS["prune"])
    assert place.stop("prune", signal.SIGKILL)[0] == -9
    assert "resuming from step" in place.run("prune")
    assert place.digest("prune") == whole


def test_a_changed_parameter_never_picks_up_an_old_state(place: Place, prepared: Place) -> None:
    place.stop("train", signal.SIGKILL)
    place.set(train={"learning_rate": 2e-3})
    assert "resuming from step" not in place.run("train")
    assert place.digest("train") != prepared.digest("train")


def test_a_changed_text_never_picks_up_an_old_state(place: Place) -> None:
    place.stop("train", signal.SIGKILL)
    ids = next((place.root / "data/encoded/token").glob("train.ids*"))
    data = bytearray(ids.read_bytes())
    data[-2] ^= 1
    ids.chmod(0o644)
    ids.write_bytes(data)
    child = place.start("train", "1000")
    said, _ = child.communicate()
    assert "resuming from step" not in said


def test_a_seed_that_is_done_is_not_trained_again(place: Place) -> None:
    place.set(seeds=[0, 1])
    place.run("train")
    whole = place.digest("train")
    shutil.rmtree(place.root / OUTPUTS["train"])
    child = place.start("train")
    assert child.stdout is not None
    for line in child.stdout:
        if "seed 0: dev" in line:  # the last line of the training
            break
    child.kill()
    child.communicate()
    said = place.run("train")
    assert "seed 0" not in said
    assert "seed 1: dev" in said
    assert place.digest("train") == whole
