"""Saved and exported linear SVMs with any settings give the probabilities of the fitted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epigram.core.files import read_json
from epigram.inference.export import PACKAGES, export
from epigram.inference.predictor import Predictor
from tests.support.linear_models import SEVERAL, TRAIN, svm

for package in PACKAGES:
    pytest.importorskip(package, reason="requires the extra onnx")

TEXTS = ["soup soup soup large room", "nice clerk", "room room", "unseen"]


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("settings", [{"sublinear": False}, {"weighting": "naive_bayes", "orders": [1, 2, 3]}])
def test_an_exported_svm_has_the_settings_of_the_fit(multi: bool, settings: dict[str, Any], tmp_path: Path) -> None:
    rows = SEVERAL["en"] if multi else TRAIN["en"]
    model, out = svm(tmp_path, "en", rows, multi=multi, **settings), tmp_path / "out"
    export(model, out)
    wanted = Predictor(model).probabilities(TEXTS)
    np.testing.assert_allclose(Predictor(out).probabilities(TEXTS), wanted, atol=1e-5)
    (tmp_path / "plain").mkdir()
    plain = Predictor(svm(tmp_path / "plain", "en", rows, multi=multi)).probabilities(TEXTS)
    assert not np.allclose(wanted, plain, atol=1e-3)


def test_a_saved_svm_has_no_setting_that_is_auto(tmp_path: Path) -> None:
    auto = dict.fromkeys(("orders", "sublinear", "weighting", "penalty"), "auto")
    saved = read_json(svm(tmp_path, "en", TRAIN["en"], **auto) / "config.json")["parts"]["model"]
    assert "auto" not in saved.values()
    assert saved["orders"][0] == 1
