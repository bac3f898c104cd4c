"""Tests that two processes train the same model as one process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError, TryAgainError
from epigram.core.files import read_json, write_json
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.models.predict import predict
from epigram.nn.encoders.semantic_perceptron import SemanticPerceptronConfig
from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.heads.attention_labeler import AttentionLabelerConfig
from epigram.nn.heads.layer_ensemble import LayerEnsembleConfig
from epigram.nn.heads.linear import LinearConfig
from epigram.nn.layers.types import DataSpec
from epigram.training.config import TrainingConfig
from epigram.training.distributed import parallel
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective
from tests.support.text_samples import EN

ROOT = Path(__file__).parents[3]
CONTEXT = DataSpec(
    vocabulary=50, classes=2, max_length=12, labels=("a", "b"), token_labels=("O", "X"), pos_weight=torch.ones(50)
)
# ε exceeds rounding errors, which are the whole gradient of some weights (a key's bias) and must not move them.
CONFIG = TrainingConfig(epochs=3, batch_size=8, max_tokens=60, patience=9, warmup=0.1, epsilon=1e-5, precision="fp32")
FEW = 6  # texts of one batch, which one process predicts alone
SCORED = (100, FEW - 1)
BLOCK: dict[str, Any] = {"width": 16, "heads": 2, "hidden": 16, "depth": 2, "dropout": 0.0}
PARTS: dict[str, tuple[Any, Any]] = {
    "mean over texts": (TransformerConfig(**BLOCK), LinearConfig(dropout=0.0)),
    "sum over texts": (TransformerConfig(**BLOCK), AttentionLabelerConfig(hidden=8, text_hidden=4)),
    "layers dropped on the way": (
        SemanticPerceptronConfig(width=16, hidden=16, depth=4, dropout=0.0, order="expectation"),
        LayerEnsembleConfig(hidden=8, tolerance=0.1),
    ),
}


def texts(count: int, seed: int) -> TextBatches:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 12, count)
    ids, labels = random.integers(2, 50, lengths.sum()), random.integers(0, 2, count)
    ids = np.where(random.random(len(ids)) < 0.5, 2 + np.repeat(labels, lengths), ids)
    return TextBatches(
        Ragged.from_lengths(ids, lengths),
        prefix=[],
        suffix=[],
        max_length=12,
        pad_id=0,
        unk_id=1,
        labels=labels,
        token_labels=(ids < 4).astype(np.int64),
    )


def train(out: Path) -> None:
    """Train every system of PARTS and write its weights and history, one set of files per process."""
    write_json(out / f"exchanged.{parallel.rank()}.json", exchanged())
    for name, (encoder_config, head_config) in PARTS.items():
        torch.manual_seed(parallel.rank())  # each process starts from other weights and gets those of rank 0
        encoder = encoder_config.build(CONTEXT)
        model = NeuralClassifier(encoder, head_config.build(CONTEXT, encoder))
        trainer = Trainer(model, label_objective(texts(33, 0), texts(21, 1), CONFIG), seed=5)
        record = trainer.run()
        where = out / f"{name}.{parallel.rank()}"
        save_file(dict(model.state_dict()), f"{where}.safetensors")
        write_json(Path(f"{where}.json"), {"depth": model.depth, "history": record.history})
        for count in SCORED:
            predict_both(model, texts(count, 2), Path(f"{where}-{count}.safetensors"))


def exchanged() -> dict[str, Any]:
    """Return what the process with rank 0 says, and the largest of a number of each."""
    said = parallel.from_first(lambda: {"rank": parallel.rank(), "text": "gelé 中", "none": []})
    return {"said": said, "largest": parallel.maximum([parallel.rank(), 5 - parallel.rank()])}


def run_out_of_memory() -> None:
    """Train the first system of PARTS; the second process is out of memory in its first step."""
    encoder = TransformerConfig(**BLOCK).build(CONTEXT)
    model = NeuralClassifier(encoder, LinearConfig(dropout=0.0).build(CONTEXT, encoder))
    trainer = Trainer(model, label_objective(texts(33, 0), texts(21, 1), CONFIG), seed=5)
    if parallel.rank():
        trainer.objective.loss = fail  # type: ignore[method-assign]
    try:
        trainer.run()
    except TryAgainError as error:
        print(f"rank {parallel.rank()}: {error}", flush=True)
        raise


def fail(*given: Any) -> Any:
    raise MemoryError


def predict_both(model: NeuralClassifier, dev: TextBatches, out: Path) -> None:
    """Write the predictions of all processes together and those of this one alone, and how many texts it read."""
    read: list[int] = []
    counting = model.register_forward_pre_hook(lambda model, given: read.append(len(given[0].ids)))
    predictions = [parallel.predict_synchronized(model, dev, "fp32")]
    counting.remove()
    predictions.append(predict(model, dev, precision="fp32"))
    arrays = {
        f"{name} {number}": torch.from_numpy(getattr(each, name))
        for number, each in enumerate(predictions)
        for name in ("logits", "parts", "tokens")
        if getattr(each, name) is not None
    }
    save_file({**arrays, "read": torch.tensor(sum(read))}, out)


def launched(count: int, *program: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `program` with torchrun in `count` processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}", f"--master-port={port}"]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    return subprocess.run(
        [*launcher, *program], cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of a run with one process and, in `two`, those of a run with two."""
    folder = tmp_path_factory.mktemp("parallel")
    (folder / "two").mkdir()
    train(folder)
    done = launched(2, str(Path(__file__)), str(folder / "two"), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", PARTS)
def test_two_processes_end_as_one_and_alike(both: Path, name: str) -> None:
    alone, first, second = (
        load_file(both / f"{file}.safetensors") for file in (f"{name}.0", f"two/{name}.0", f"two/{name}.1")
    )
    assert alone.keys() == first.keys() == second.keys()
    for key, weights in alone.items():
        torch.testing.assert_close(first[key], weights, rtol=0, atol=1e-5)
        assert first[key].equal(second[key]), key
    told, one, two = (read_json(both / f"{file}.json") for file in (f"{name}.0", f"two/{name}.0", f"two/{name}.1"))
    assert one == two, "each process decides as the other"
    assert told["depth"] == one["depth"]
    for line, other in zip(told["history"], one["history"], strict=True):
        assert other == pytest.approx(line, abs=1e-5)


def test_all_processes_have_what_the_first_one_says_and_the_largest_numbers(both: Path) -> None:
    first = {"rank": 0, "text": "gelé 中", "none": []}
    assert read_json(both / "exchanged.0.json") == {"said": first, "largest": [0, 5]}
    for rank in range(2):
        assert read_json(both / f"two/exchanged.{rank}.json") == {"said": first, "largest": [1, 5]}


def test_layers_went_while_two_processes_trained(both: Path) -> None:
    assert read_json(both / "two/layers dropped on the way.0.json")["depth"] < 4


@pytest.mark.parametrize("count", SCORED)
@pytest.mark.parametrize("name", PARTS)
def test_each_process_predicts_its_share_and_all_have_the_bits_of_one(both: Path, name: str, count: int) -> None:
    shares = [load_file(both / f"two/{name}.{rank}-{count}.safetensors") for rank in range(2)]
    read = [int(share.pop("read")) for share in shares]
    assert sum(read) == count and (count < FEW or min(read) > 0)
    for key, together in shares[0].items():
        kind, number = key.split()
        assert together.equal(shares[1][key]), key
        assert together.equal(shares[0][f"{kind} {1 - int(number)}"]), key


def test_one_process_out_of_memory_ends_all_with_a_retryable_error(tmp_path: Path) -> None:
    done = launched(2, str(Path(__file__)), "memory", cwd=tmp_path)
    assert done.returncode
    assert "rank 1: out of memory at step 1, on 8 texts of up to" in done.stdout
    assert "shared by 2 processes; free memory and rerun, or lower train.batch_size" in done.stdout
    assert "PeerEndedError: another process of the training has ended; rerun" in done.stderr


def test_two_processes_of_torchrun_write_one_folder(encoded: Any, tmp_path: Path) -> None:
    encoded({**EN, "train": EN["train"] * 8}, "en")
    (tmp_path / "pretrained").mkdir()
    write_json(tmp_path / "pretrained/about.json", {"steps": 0})
    params = yaml.safe_load((Path(__file__).parents[3] / "params.yaml").read_text())
    params |= {"views": {"v": {"tokenizer": "token"}}, "systems": {"textcnn": {"view": "v", "train": {"epochs": 2}}}}
    params["seeds"] = [0, 1]
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    done = launched(2, "-m", "epigram.stages.train", "textcnn", "out", "pretrained", "models", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("textcnn seed 0: dev") == 1
    assert [path.name for path in sorted((tmp_path / "models").iterdir())] == ["seed-0", "seed-1"]
    assert not list(tmp_path.glob(".models*"))


def test_without_a_launcher_nothing_changes() -> None:
    rows = np.arange(5)
    with parallel.process_group():
        ((own, weight),) = parallel.split_batch(rows, torch.nn.Identity())
        assert (own.tolist(), weight) == (rows.tolist(), 1.0)


def test_half_a_launcher_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with (
        pytest.raises(ParameterError, match=r"WORLD_SIZE is 2, but LOCAL_RANK, MASTER_ADDR, MASTER_PORT not set"),
        parallel.process_group(),
    ):
        pass


if __name__ == "__main__":
    with parallel.process_group():
        run_out_of_memory() if sys.argv[1] == "memory" else train(Path(sys.argv[1]))
