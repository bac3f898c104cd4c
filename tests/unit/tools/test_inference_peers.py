"""Tests of the peers of the inference benchmark: the probabilities of transformers' classifier, and what they need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from benchmarks import inference, minilm
from benchmarks.inference_peers import Pipeline, peers
from benchmarks.inference_runners import classifier
from benchmarks.timing import Plan
from tests.support.tiny_classifier import write_classifier

WORDS = ("a", "film", "good", "bad", "book", "long", "the", "not")
# One has more tokens than the classifier reads. Batches of 4 are padded, and the last one has two texts.
TEXTS = [
    *(" ".join(WORDS[n % 3 : n % 3 + n]) for n in (1, 5, 2, 3, 4, 1)),
    "the film " * 5,
    "good " * 3,
    "a",
    "bad " * 200,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_classifier(tmp_path_factory.mktemp("classifier"), WORDS)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def programs(folder: Path, scratch: Path) -> Iterator[dict[str, Any]]:
    """Return the peers in float32; their graph is theirs.onnx in `scratch`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(scratch))
        yield peers(folder, scratch, ["fp32"])


@torch.no_grad()
def expected(folder: Path, texts: list[str]) -> NDArray[np.float32]:
    """Return the probabilities (N, C) of the classifier for each text alone, which needs no mask."""
    from transformers import AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), classifier(folder)
    ids = [tokenizer(text, truncation=True, max_length=minilm.LENGTH)["input_ids"] for text in texts]
    return torch.cat([model(torch.tensor([each])).logits.softmax(1) for each in ids]).numpy()


@pytest.mark.parametrize(
    "name",
    [pytest.param("torch.compile, fp32", marks=pytest.mark.extended), "ONNX Runtime, fp32", "OpenVINO, fp32"],
)
def test_a_peer_gives_the_probabilities_of_transformers(name: str, folder: Path, programs: dict[str, Any]) -> None:
    if name not in programs:
        pytest.skip(f"{name} cannot run here")
    right = expected(folder, TEXTS)
    found = programs[name].answer(TEXTS, batch_size=4)
    assert found.shape == (len(TEXTS), 3)
    assert np.abs(found - right).max() < 1e-4
    assert np.ptp(right, axis=0).max() > 0.1  # the texts have different answers
    fewer = programs[name].answer(TEXTS[4:], batch_size=4)
    assert fewer.shape == (len(TEXTS) - 4, 3) and np.abs(fewer - right[4:]).max() < 1e-4
    if name != "torch.compile, fp32":  # which compiles once more for a single text
        assert np.abs(programs[name].answer(TEXTS[1]) - right[1]).max() < 1e-4


def test_the_pipeline_gives_the_probabilities_of_transformers(folder: Path, programs: dict[str, Any]) -> None:
    scores = [each["score"] for each in programs["pipeline(), fp32"].answer(TEXTS, batch_size=4)]
    assert np.abs(scores - expected(folder, TEXTS).max(axis=1)).max() < 1e-4
    weights = [Pipeline(folder, precision).pipeline.model.dtype for precision in ("bf16 autocast", "bf16 weights")]
    assert weights == [torch.float32, torch.bfloat16]


class Recorder:
    """Peer and predictor that keep what they are asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def answer(self, texts: list[str] | str, batch_size: int = 1) -> None:
        self.asked.append((texts, batch_size))

    def probabilities(self, texts: list[str]) -> None:
        self.asked.append(texts)

    predict = probabilities


def test_many_texts_are_sorted_for_peers_and_run_once_before_the_timed_rounds(tmp_path: Path) -> None:
    ours, peer = Recorder(), Recorder()
    mine, others = inference.many(Plan(tmp_path), ours, {"x, fp32": peer}, ["ccc", "a", "bb"])  # type: ignore[arg-type]
    assert ours.asked == [["ccc", "a", "bb"]] * 4
    assert peer.asked == [(["a", "bb", "ccc"], size) for size in (16, 32, 64)] * 4
    assert list(others) == [f"x, fp32, sorted, batch {size}" for size in (16, 32, 64)]
    assert len(mine.runs) == 3


def test_single_texts_are_the_same_for_all_and_in_the_warm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "SINGLES", 2)
    ours, peer = Recorder(), Recorder()
    mine, others = inference.single(Plan(tmp_path), ours, {"x": peer}, ["a", "bb", "ccc"])  # type: ignore[arg-type]
    assert ours.asked == [["a"], ["bb"]] * 2 * inference.ROUNDS
    assert peer.asked == [("a", 1), ("bb", 1)] * 2 * inference.ROUNDS
    assert len(mine.runs) == len(others["x"].runs) == inference.ROUNDS
