"""A training that is killed and resumed in a new process ends bit for bit like an uninterrupted one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from epigram.training.loop.checkpoints import Checkpoints
from tests.support.runs import BATCHES, GRADIENT, KilledError, ended, trainer
from tests.support.small_systems import distinct

pytestmark = pytest.mark.slow
# Where each training is killed: at a batch of train, in the middle of a step, or at a batch of dev.
CASES: dict[str, dict[str, int]] = {
    "in the first epoch": {"train": 2},
    "in the second epoch": {"train": BATCHES + 1},
    "while dev is judged": {"dev": 1},
    "while a checkpoint is written": {"train": BATCHES + 2},
}
SECOND = "in the second epoch"  # what a system lacks after a resume, it lacks here
# Systems that are killed in every place: with a plain loop, with counts of batches, a depth that an evaluation changes,
# a schedule that reads the score and losses of tokens, and labels one after another.
EVERYWHERE = {"textcnn", "vdcnn", "dmsp", "mhal_joint", "cnle"}


def cases_of(name: str) -> list[str]:
    return list(CASES) if name in EVERYWHERE else [SECOND]


def killed(name: str, case: str, folder: Path) -> None:
    """Train until the kill, and leave the files of an incomplete checkpoint."""
    torch.set_num_threads(1)
    with pytest.raises(KilledError):
        trainer(name, folder, **CASES[case]).run()
    if "checkpoint" in case:
        newest = max(folder.glob("step-*")) / "state.safetensors"
        newest.write_bytes(newest.read_bytes()[:-7])
        (folder / ".step-00000009.abcdefgh").mkdir()


@pytest.fixture(scope="module")
def resumed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the result of every killed training after its resume in a new process, by system and case."""
    folder = tmp_path_factory.mktemp("states")
    selected = [item for item in request.session.items if item.name.startswith("test_the_same_bits[")]
    for name in [item.callspec.params["name"] for item in selected]:  # type: ignore[attr-defined]
        for case in cases_of(name):
            killed(name, case, folder / name / case)
    command = [sys.executable, "-m", "tests.support.runs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", distinct(GRADIENT))
def test_the_same_bits(name: str, resumed: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    whole = ended(trainer(name))
    for case in cases_of(name):
        found = resumed[f"{name}/{case}"]
        assert found.pop("first") > 0, f"{case}: it began anew"
        assert found == {key: whole[key] for key in found}, case


def test_checkpoints_of_different_steps_differ(tmp_path: Path) -> None:
    killed("textcnn", SECOND, tmp_path)
    first, second = (path / "state.safetensors" for path in sorted(tmp_path.glob("step-*")))
    assert first.stat().st_size == second.stat().st_size
    assert first.read_bytes() != second.read_bytes()


def test_the_digest_sees_another_order_of_batches() -> None:
    one, other = trainer("textcnn"), trainer("textcnn")
    other.order.random()  # the batches have another order
    assert ended(one)["digest"] != ended(other)["digest"]


def test_two_checkpoints_are_kept(tmp_path: Path) -> None:
    made = trainer("textcnn", tmp_path)
    made.run()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("file", ["state.safetensors", "state.json"])
def test_a_flipped_bit_sends_back_to_the_checkpoint_before(tmp_path: Path, file: str) -> None:
    killed("textcnn", SECOND, tmp_path)
    before, newest = sorted(tmp_path.glob("step-*"))
    data = bytearray((newest / file).read_bytes())
    data[len(data) // 2] ^= 1
    (newest / file).write_bytes(data)
    state = Checkpoints(tmp_path).latest()
    assert state is not None
    assert state.facts["position"]["step"] == int(before.name.removeprefix("step-"))
    assert not newest.exists()


def test_a_checkpoint_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = trainer("textcnn", tmp_path / "file" / "under")
    with pytest.raises(OSError, match="Not a directory"):
        made.run()
