"""Tests of the device that a saved model predicts on: its choice, its refusal, and where the tensors are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import epigram
from epigram.core.errors import ParameterError
from epigram.inference.onnx.export import export
from epigram.inference.predictors import predictor as module
from epigram.inference.predictors.predictor import Predictor
from epigram.models import devices, ensemble
from epigram.models.batches import TextBatches
from epigram.models.devices import find_device
from epigram.models.precision import Precision, matmul_precision
from epigram.models.predict import Predicted
from epigram.recipes.registry import RECIPES
from tests.support.saved_systems import saved
from tests.support.small_systems import LABELS, distinct

TEXTS = ["w20 w21", "", "w30 w31 w7 w8 w9 w10", "w45"]
NETWORKS = [name for name in sorted(RECIPES) if RECIPES[name].has_encoder]
READ = [name for name in NETWORKS if RECIPES[name].view == "spelled" or name == "universal_transformer"]  # read a value
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="requires a GPU")


def have(monkeypatch: pytest.MonkeyPatch, *, gpus: int = 0, mps: bool = False) -> None:
    """Let PyTorch find these devices."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("name", "gpus", "mps", "wanted"),
    [
        ("auto", 0, False, "cpu"),
        ("auto", 0, True, "cpu"),
        ("auto", 2, False, "cuda"),
        ("cpu", 2, False, "cpu"),
        ("cuda", 1, False, "cuda"),
        ("cuda:1", 2, False, "cuda:1"),
        ("mps", 0, True, "mps"),
    ],
)
def test_a_device_is_chosen_by_its_name(
    name: str, gpus: int, mps: bool, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, gpus=gpus, mps=mps)
    assert str(find_device(name)) == wanted


@pytest.mark.parametrize(
    ("name", "gpus", "mps", "found"),
    [
        ("gpu", 0, False, "cpu"),
        ("", 0, False, "cpu"),
        ("meta", 0, False, "cpu"),
        ("cpu:1", 0, False, "cpu"),
        ("cuda", 0, True, "cpu, mps"),
        ("mps", 1, False, "cpu, cuda, cuda:0"),
        ("cuda:2", 2, False, "cpu, cuda, cuda:0, cuda:1"),
        ("cuda:-1", 1, False, "cpu, cuda, cuda:0"),
    ],
)
def test_a_device_that_does_not_exist_is_refused_with_those_that_do(
    name: str, gpus: int, mps: bool, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, gpus=gpus, mps=mps)
    with pytest.raises(ParameterError) as refused:
        find_device(name)
    assert str(refused.value) == f"device is {name!r}; expected auto, or one that PyTorch finds: {found} (--device)"


def test_the_command_refuses_an_absent_device_in_one_line(
    run: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        run("nice soup", "--device", "cuda")
    assert ended.value.code == 64
    [line] = capsys.readouterr().err.splitlines()
    assert "device is 'cuda'; expected auto, or one that PyTorch finds: cpu (--device)" in line


def test_an_exported_model_is_refused_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(saved("mlp", tmp_path), tmp_path / "exported")
    have(monkeypatch, gpus=1)
    with pytest.raises(ParameterError, match=r"^device is 'cuda', but .*exported is exported for the CPU; use auto"):
        epigram.load(tmp_path / "exported", device="cuda")
    for device in ("auto", "cpu"):
        assert len(epigram.load(tmp_path / "exported", device=device).predict(TEXTS)) == len(TEXTS)


class Device:
    """Replacement of `predict` for the device `meta`, which has no values: it notes where models and texts are."""

    def __init__(self) -> None:
        self.seen: list[set[str]] = []

    def __call__(self, model: Any, texts: TextBatches, *, precision: Precision) -> Predicted:
        tokens = texts.gather(np.arange(len(texts)))
        with matmul_precision(precision, texts.device):
            out = model(tokens)  # an operator refuses tensors of two devices
        tensors = [*model.state_dict().values(), tokens.ids, tokens.valid, out.logits]
        self.seen.append({tensor.device.type for tensor in tensors})
        return Predicted(np.zeros((len(texts), len(LABELS)), np.float32), None)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Return what notes the devices, on a machine whose GPU is the device `meta`."""
    noted = Device()
    monkeypatch.setattr(module, "predict", noted)
    monkeypatch.setattr(devices, "default_device", lambda: torch.device("meta"))
    enabled = torch.is_autocast_enabled  # raises for `meta`
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: kind != "meta" and enabled(kind))
    return noted


@pytest.mark.parametrize("name", distinct(name for name in NETWORKS if name not in READ))
def test_a_network_and_its_texts_are_moved_to_the_gpu(name: str, tmp_path: Path, device: Device) -> None:
    found = epigram.load(saved(name, tmp_path, characters="")).predict(TEXTS)
    assert device.seen == [{"meta"}]
    assert [len(each.labels) for each in found] == [1, 0, 1, 1]


@pytest.mark.parametrize(("name", "on"), [("tfidf_svm", "cpu"), ("bert", "meta")])
def test_each_member_of_an_ensemble_chooses_its_own_device(name: str, on: str, tmp_path: Path, device: Device) -> None:
    members = {}
    for number, (member, frame) in enumerate(
        (("mlp", {"characters": ""}), (name, {"characters": ""} if on == "meta" else {}))
    ):
        (tmp_path / str(number)).mkdir()
        members[str(number)] = saved(member, tmp_path / str(number), **frame)
    whole = ensemble.SavedEnsemble(
        folder=tmp_path / "ensemble", labels=LABELS, multi=False, weights={"0": 0.5, "1": 0.5}, temperature=1.0,
        thresholds=[0.5] * 3,
    )  # fmt: skip
    ensemble.save(whole, ensemble.copy_members(members))
    epigram.load(whole.folder).predict(TEXTS)
    assert device.seen == [{"meta"}, {on}]
    device.seen.clear()
    epigram.load(whole.folder, device="cpu").predict(TEXTS)
    assert device.seen == [{"cpu"}] * 2


@gpu
@pytest.mark.parametrize("name", distinct(NETWORKS))
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("auto", 0.03)])
def test_a_gpu_predicts_as_the_cpu(name: str, precision: Precision, tolerance: float, tmp_path: Path) -> None:
    folder = saved(name, tmp_path)
    wanted = Predictor(folder, precision="fp32", device="cpu").probabilities(TEXTS)
    found = Predictor(folder, precision=precision, device="cuda").probabilities(TEXTS)
    np.testing.assert_allclose(found, wanted, atol=tolerance)
