"""Runs in MLflow, in a store of its own: settings, scores, curves, the report, and a model for a fresh process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

import epigram
from epigram.cli.app import app
from epigram.core.config_types import validate_as
from epigram.core.errors import SourceUnavailableError
from epigram.core.extras import MissingPackageError
from epigram.evaluation.records.summary import Summary
from epigram.models.serialization import load, save_changed
from epigram.runner.runs import mlflow_log
from epigram.runner.runs.publish import Run
from epigram.runner.workspace.request import Request
from tests.pipeline.test_flow_results import comparison
from tests.support.linear_models import TRAIN, svm

PARAMS = """
dataset: toy
seeds: [0, 1]
views: {token: {tokenizer: token}, other: {tokenizer: wordpiece}}
systems: {mlp: {view: token, train: {epochs: 3}}, bert: {view: other}}
train: {epochs: null}
validate: {}
retrain: {database: {url: "postgresql://me:secret@host/db"}}
"""
HISTORY = [{"epoch": epoch, "step": 4 * epoch, "loss": 1 / epoch, "dev": epoch / 4} for epoch in (1, 2)]
TEXTS = ["饭好吃", "房大", ""]
LOAD = """
import json, sys
import mlflow.pyfunc, pandas
model = mlflow.pyfunc.load_model(sys.argv[1])
texts = json.loads(sys.argv[2])
frames = [model.predict(texts), model.predict(pandas.DataFrame({"id": range(3), "text": [*texts[:2], None]}))]
print(json.dumps([frame.fillna({"label": ""}).to_dict("list") for frame in frames]))
"""


@pytest.fixture
def run(tmp_path: Path) -> tuple[Run, Request]:
    """Return a finished run with a model and its request; its folder has a report."""
    (tmp_path / "params.yaml").write_text(PARAMS)
    (tmp_path / "made").mkdir()
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    saved = load(svm(tmp_path / "made", "zh", TRAIN["zh"]))
    (saved.folder / "history.json").write_text(json.dumps(HISTORY))
    save_changed(folder / "model", saved, saved.model, {})
    (folder / "report.html").write_text("the report")
    compared = comparison() | {"rows": [*comparison()["rows"], {**comparison()["rows"][0], "system": "bert"}]}
    stages: dict[str, Any] = {}
    ended = Run(name="mine", dataset="toy", revision="abc", wall_seconds=1.0, stages=stages, comparison=compared)
    return ended, Request(root=tmp_path)


def test_settings_are_those_of_the_chosen_system_without_addresses() -> None:
    import yaml

    params = yaml.safe_load(PARAMS)
    own = {
        "dataset": "toy", "seeds": "[0, 1]", "views.token.tokenizer": "token", "systems.mlp.view": "token",
        "systems.mlp.train.epochs": "3", "train.epochs": "null", "validate": "{}",
    }  # fmt: skip
    assert mlflow_log.settings_of(params, "mlp") == own
    assert mlflow_log.settings_of(params, "ensemble").keys() == own.keys() | {
        "views.other.tokenizer",
        "systems.bert.view",
    }


def test_scores_are_those_of_the_chosen_system_and_of_every_system_by_its_name() -> None:
    (row,) = comparison()["rows"]
    other = row | {"system": "bert", "dev_score": 0.9, "test_score": 0.5, "outcome": "unranked"}
    found = mlflow_log.scores_of(validate_as(Summary, comparison() | {"rows": [other, row]}))
    names = "dev_score", "test_score", "test_low", "test_high", "macro_f1", "mlp/macro_f1", "bert/test_score"
    assert [found[name] for name in names] == [0.8, 0.75, 0.7, 0.8, 0.7, 0.7, 0.5]
    assert not {"bert/dev_score", "dev_std"} & found.keys()  # an unranked system has no score on dev of its own


@pytest.mark.parametrize("served", [False, pytest.param(True, marks=pytest.mark.extended)])
def test_a_run_is_logged_and_its_model_loads_in_a_fresh_process(
    run: tuple[Run, Request], served: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="requires the extra mlflow")
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with server(address, tmp_path / "files") if served else nullcontext(address) as found:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", found)
        check_logged(run, mlflow, tmp_path)


@contextmanager
def server(store: str, files: Path) -> Iterator[str]:
    """Run MLflow's own server, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--port", str(port)]
    command += ["--artifacts-destination", str(files), "--workers", "1"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 180
        while True:
            with suppress(httpx.TransportError):
                if httpx.get(f"http://127.0.0.1:{port}/health").is_success:
                    break
            assert process.poll() is None and time.monotonic() < end, "mlflow server did not start"
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def check_logged(run: tuple[Run, Request], mlflow: Any, tmp_path: Path) -> None:
    """Log the run, read it with MLflow's client, and load its model in another process."""
    labels = [each.label for each in epigram.load(tmp_path / "runs" / "mine" / "model").predict(TEXTS)]
    mlflow_log.log_run(*run)
    (logged,) = mlflow.MlflowClient().search_runs(["0"])
    assert (logged.info.run_name, logged.info.status) == ("mine", "FINISHED")
    assert (logged.data.tags["dataset"], logged.data.tags["revision"]) == ("toy", "abc")
    assert logged.data.params["systems.mlp.train.epochs"] == "3" and "secret" not in str(logged.data.params)
    scores = logged.data.metrics
    assert [scores[name] for name in ("test_score", "test_low", "test_high")] == [0.75, 0.7, 0.8]
    assert scores["bert/dev_score"] == 0.8
    curve = mlflow.MlflowClient().get_metric_history(logged.info.run_id, "loss")
    assert [(point.step, point.value) for point in curve] == [(4, 1.0), (8, 0.5)]
    report = mlflow.artifacts.download_artifacts(run_id=logged.info.run_id, artifact_path="report.html")
    assert Path(report).read_text() == "the report"
    command = [sys.executable, "-c", LOAD, f"runs:/{logged.info.run_id}/model", json.dumps(TEXTS)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    of_list, of_frame = json.loads(done.stdout.splitlines()[-1])
    assert of_list == of_frame and of_list["label"] == labels


def test_a_server_that_does_not_answer_is_an_error_of_one_line(
    run: tuple[Run, Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="requires the extra mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(SourceUnavailableError, match=r"^the run is complete, but MLflow did not log it: [^\n]*again$"):
        mlflow_log.log_run(*run)


def test_without_the_extra_nothing_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    hidden = ("mlflow", "pandas")
    monkeypatch.setattr("epigram.core.extras.find_spec", lambda name: None if name in hidden else find_spec(name))
    monkeypatch.setattr("epigram.runner.prefect.execution.execute", lambda *_: pytest.fail("the pipeline was started"))
    with pytest.raises(SystemExit) as ended:
        app(["run", "--track", "mlflow"])
    assert ended.value.code == MissingPackageError.code
    assert "--track mlflow needs mlflow, pandas, which are not installed; run: " in capsys.readouterr().err
