"""The example of docs/export.md: OpenVINO gives the probabilities of the exported graph."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import epigram
from tests.support.saved_systems import saved

openvino = pytest.importorskip("openvino", reason="requires the package openvino: make peers")
export = pytest.importorskip("epigram.inference.onnx.export", reason="requires the extra onnx").export
PAGE = Path(__file__).parents[3] / "docs/export.md"
TEXTS = ["w7 w22 w30 w31", "w9", "w12 unheard w55", "w8 w40 " * 20]


@pytest.mark.parametrize("system", ["textcnn", "bert"])
def test_openvino_gives_the_probabilities_of_the_graph(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/latest").mkdir(parents=True)
    saved(system, tmp_path, characters="").rename("runs/latest/model")
    export(Path("runs/latest/model"), Path("exported"))
    (example,) = [
        code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S) if "openvino" in code
    ]
    found: dict[str, Any] = {}
    exec(example.replace('["房间很大"]', repr(TEXTS)), found)
    expected = epigram.load("exported").probabilities(TEXTS)
    assert np.ptp(expected, 0).max() > 0.01
    np.testing.assert_allclose(softmax(found["logits"], 1), expected, atol=1e-5)
    inputs = {"ids": found["tokens"]["input_ids"], "valid": found["tokens"]["attention_mask"].astype(bool)}
    written = openvino.compile_model("model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(inputs)["logits"]
    np.testing.assert_allclose(softmax(written, 1), expected, atol=1e-3)  # its weights have 16 bits
