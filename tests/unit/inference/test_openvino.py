"""Models that are exported for OpenVINO predict what the model predicts, on every way to a prediction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import epigram
from epigram.core.errors import DataError, ParameterError
from epigram.core.extras import MissingPackageError
from epigram.inference.onnx import openvino_network
from epigram.inference.predictors.predictor import Predictor
from epigram.inference.predictors.runtimes import open_graph
from epigram.inference.python_package import write_package
from epigram.models.predict import predict
from epigram.models.serialization import load, save_changed
from tests.support.linear_models import SEVERAL, TRAIN, ensemble_of_svms, svm
from tests.support.model_seeds import change_ngrams, sealed
from tests.support.saved_systems import saved

pytest.importorskip("openvino", reason="requires the extra openvino")
export = pytest.importorskip("epigram.inference.onnx.export", reason="requires the extra onnx").export

WORDS = [f"w{number}" for number in range(5, 60)] + ["unheard", "soup", "room", "nice", "large", "clerk"]
DRAW = np.random.default_rng(0)
TEXTS = ["", "w9", "soup", "w8 w40 " * 20, *(" ".join(DRAW.choice(WORDS, DRAW.integers(1, 30))) for _ in range(60))]


def spread(name: str, folder: Path, scale: float) -> Path:
    """Save a small network whose random weights are so large that the probabilities of texts differ much."""
    network = load(saved(name, folder))
    with torch.no_grad():
        for weight in network.model.parameters():
            weight.mul_(scale)
    network.model.temperature.fill_(1.0)
    save_changed(folder / "spread", network, network.model, {})
    return folder / "spread"


MODELS: dict[str, Callable[[Path], Path]] = {
    "linear": lambda folder: svm(folder, "en", TRAIN["en"]),
    "linear_multi": lambda folder: svm(folder, "en", SEVERAL["en"], multi=True),
    "bert": lambda folder: spread("bert", folder, 1.0),
    "tagger": lambda folder: spread("bilstm_tagger", folder, 3.0),
}
FILES = {"README.md", "config.json", "labels.json", "manifest.json", "model.bin", "model.xml", "tokenizer.json"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an exported linear SVM; tests must not change it."""
    folder = tmp_path_factory.mktemp("svm")
    export(svm(folder, "en", TRAIN["en"]), folder / "out", to="openvino")
    return folder / "out"


@pytest.mark.parametrize("kind", MODELS)
def test_the_labels_and_probabilities_are_those_of_the_model(kind: str, tmp_path: Path) -> None:
    model, out = MODELS[kind](tmp_path), tmp_path / "out"
    export(model, out, to="openvino")
    ngrams = {"ngrams.json"} if "linear" in kind else set()
    assert {path.name for path in out.iterdir()} == FILES | ngrams
    wanted, found = Predictor(model, precision="fp32"), epigram.load(out)
    p = wanted.probabilities(TEXTS)
    assert np.ptp(p, 0).max() > 0.01
    exact = 1e-5 if ngrams else 0.02  # OpenVINO computes a network in bfloat16 where it can
    np.testing.assert_allclose(found.probabilities(TEXTS), p, atol=exact)
    ordered = np.sort(p, 1)
    certain = (ordered[:, -1] - ordered[:, -2] > 2 * exact) | wanted.multi
    assert certain.mean() > 0.6
    for own, answer, alike in zip(wanted.predict(TEXTS), found.predict(TEXTS), certain, strict=True):
        assert answer.labels == own.labels or not alike
        assert len(answer.words) == len(own.words)
    network = open_graph(out / "model.xml", multi=wanted.multi, exact=True)
    logits, itself = (predict(each, wanted.batches(TEXTS), precision="fp32") for each in (network, load(model).model))
    np.testing.assert_allclose(logits.logits, itself.logits, atol=1e-4)
    assert json.loads((out / "manifest.json").read_text())["graph"] == "OpenVINO"
    assert "graph (OpenVINO)" in (out / "README.md").read_text(encoding="utf-8")


def test_an_ensemble_is_exported_member_by_member(tmp_path: Path) -> None:
    whole, out = ensemble_of_svms(tmp_path), tmp_path / "out"
    export(whole, out, to="openvino")
    assert len(list(out.rglob("model.xml"))) == 2
    np.testing.assert_allclose(
        epigram.load(out).probabilities(TEXTS), epigram.load(whole).probabilities(TEXTS), atol=1e-5
    )


def test_a_network_that_differs_from_its_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = svm(tmp_path, "en", SEVERAL["en"])
    export(other, tmp_path / "out", to="openvino")
    (tmp_path / "second").mkdir()
    model, convert = svm(tmp_path / "second", "en", TRAIN["en"]), openvino_network.open_graph
    monkeypatch.setattr(
        openvino_network, "open_graph", lambda *_, **given: convert(tmp_path / "out/model.xml", **given)
    )
    with pytest.raises(ParameterError, match=r"system svm cannot be exported: the graph's output differs by"):
        export(model, tmp_path / "new", to="openvino")
    assert not (tmp_path / "new").exists()


def test_openvino_is_imported_without_the_package_that_reports_it(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "openvino_telemetry.py").write_text("raise SystemExit('reported')")
    code = "import sys, epigram; print(epigram.load(sys.argv[1]).predict(['soup'])[0].label)"
    command, environment = [sys.executable, "-c", code, str(exported)], {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "food\n"


def test_without_the_extra_one_line_says_what_to_install(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = epigram.core.extras.find_spec  # type: ignore[attr-defined]
    monkeypatch.setattr("epigram.core.extras.find_spec", lambda name: None if name == "openvino" else find(name))
    model = svm(tmp_path, "en", TRAIN["en"])
    with pytest.raises(MissingPackageError, match=r"^export needs openvino, .*; run: .*\[onnx,openvino\]'?$"):
        export(model, tmp_path / "out", to="openvino")
    with pytest.raises(MissingPackageError, match=r"model\.xml needs openvino, .*; run: .*\[openvino\]'?$"):
        epigram.load(exported)


def test_a_package_of_the_model_needs_the_extra(exported: Path, tmp_path: Path) -> None:
    write_package(exported, tmp_path / "hotel", version="2")
    assert 'dependencies = ["epigram[openvino]>=' in (tmp_path / "hotel/pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize("name", ["model.xml", "model.bin"])
def test_damaged_files_are_refused(name: str, exported: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for path in exported.iterdir():
        (out / path.name).write_bytes(path.read_bytes())
    (out / name).write_bytes((out / name).read_bytes()[:-40])
    with pytest.raises(DataError, match=rf"{name} was changed after the model was saved"):
        Predictor(out)
    sealed(out)
    with pytest.raises(DataError, match=r"model\.xml is not a graph that OpenVINO can run"):
        Predictor(out)


@pytest.mark.parametrize("more", [False, True])
def test_n_grams_of_another_number_than_the_network_s_are_refused(more: bool, exported: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for path in exported.iterdir():
        (out / path.name).write_bytes(path.read_bytes())
    change_ngrams(out, more=more)
    with pytest.raises(DataError, match=r"ngrams\.json does not have the n-grams of model\.xml"):
        Predictor(out)
