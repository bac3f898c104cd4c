"""Progress from the output lines of a training."""

from __future__ import annotations

import warnings

import pytest

from epigram.runner.prefect.artifacts import ProgressArtifact, percent
from epigram.training.loop.progress import Progress, progress_line


def test_a_training_s_own_line_has_its_percentage() -> None:
    shown = progress_line(Progress(3, 20, 30, 100, 0.412, "82.1", 1200.0, 12.0), "mlp seed 0")
    assert percent(shown) == 30.0


@pytest.mark.parametrize("text", ["dev 82.1 at epoch 7", "[MASK] [", "[]", "[--#]"])
def test_a_line_without_a_bar_has_none(text: str) -> None:
    assert percent(text) is None


def test_a_server_that_is_gone_does_not_disturb_the_stage(caplog: pytest.LogCaptureFixture) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    gauge = ProgressArtifact("train@bert_hth pta")
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning of Prefect: no run is active here
        gauge.show("epoch 1/2 [#-]")
        gauge.show("epoch 2/2 [##]")
        gauge.finish()
    assert [each for each in caplog.messages if "progress-train-bert-hth-pta" in each] == [caplog.messages[-1]]
