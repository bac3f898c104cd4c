"""Runs in MLflow: settings, scores, curves, report and model of a finished run.

MLflow's own variables, such as MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME, say where runs are logged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.errors import SourceUnavailableError
from epigram.core.extras import require
from epigram.core.files import read_json
from epigram.core.settings import read_params
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import workspace_folder

if TYPE_CHECKING:
    from epigram.evaluation.records.summary import Summary
    from epigram.runner.runs.publish import Run

UNREAD = ("retrain", "drift")  # sections that no stage reads; a database's address may contain a password
FLAVOUR = "epigram.inference.pyfunc"


def require_mlflow() -> None:
    """Raise MissingPackageError if the extra `mlflow` is not installed."""
    require("--track mlflow", "mlflow", "mlflow", "pandas")


def log_run(run: Run, request: Request) -> None:
    """Log a run that succeeded. Raises SourceUnavailableError if MLflow's server does not take it."""
    if run.summary is None:  # nothing was compared
        return
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when MLflow is imported
    import mlflow
    from mlflow.exceptions import MlflowException

    params, folder = read_params(workspace_folder(request) / "params.yaml"), request.root / "runs" / run.name
    try:
        with mlflow.start_run(run_name=run.name, tags={"dataset": run.dataset, "revision": run.revision}):
            mlflow.log_params(settings_of(params, run.summary.chosen_system))
            mlflow.log_metrics(scores_of(run.summary))
            _log_curve(folder / "model" / "history.json")
            mlflow.log_artifact(str(folder / "report.html"))
            _log_model(folder / "model")
    except (MlflowException, OSError) as error:
        message = " ".join(str(error).split())
        raise SourceUnavailableError(
            f"the run is complete, but MLflow did not log it: {message}; to log it, run the command again"
        ) from None


def settings_of(params: Mapping[str, Any], chosen: str) -> dict[str, str]:
    """Return the settings of the system `chosen` by their dotted keys; the ensemble has the settings of all systems."""
    params = {name: value for name, value in params.items() if name not in UNREAD}
    if system := params["systems"].get(chosen):
        views = {name: view for name, view in params["views"].items() if name == system["view"]}
        params |= {"systems": {chosen: system}, "views": views}
    return dict(_flat("", params))


def _flat(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}".lstrip("."), inner)
    else:
        yield key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def scores_of(summary: Summary) -> dict[str, float]:
    """Return the scores of the chosen system, with intervals, and of every system as SYSTEM/SCORE."""
    from epigram.report.dvc_plots import numbers

    systems = {row.system: numbers(row) for row in summary.rows}
    each = {f"{system}/{name}": value for system, scores in systems.items() for name, value in scores.items()}
    return each | systems[summary.chosen_system]


def _log_curve(history: Path) -> None:
    """Log losses and scores of each evaluation, by the number of training steps; not every model has them."""
    import mlflow

    for line in read_json(history) if history.exists() else ():
        step = int(line.pop("step"))
        mlflow.log_metrics({name: float(value) for name, value in line.items() if value is not None}, step=step)


def _log_model(folder: Path) -> None:
    from importlib.metadata import version

    import mlflow.pyfunc

    requirements = [f"epigram=={version('epigram')}"]
    mlflow.pyfunc.log_model(name="model", loader_module=FLAVOUR, data_path=str(folder), pip_requirements=requirements)
