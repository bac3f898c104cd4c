"""Drift check of new texts against those of the champion.

If the texts have drifted and labelled rows wait, a retraining starts. Settings: `drift` in params.yaml.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from epigram.runner.champions import champion
from epigram.runner.retraining.drift import LABELS_NEEDED, NO_CHAMPION, RETRAINING_RUNS
from flows.retrain import retrain
from tasks.retraining import drift


@flow(name="drift_check")
def drift_check(root: Path | str = ".", file: Path | str | None = None) -> State[Any]:
    """Measure the waiting texts, or those of `file`, write runs/drift/TIME.json, and retrain if they have drifted.

    Retraining needs waiting rows with labels and no `file`. The state's data is a Drift, or None if there is no
    champion. If the retraining skipped files, the state is Failed, and its message names them.
    """
    root = Path(root).resolve()
    skipped: list[str] = []
    result = drift(root, Path(file).resolve() if file else None)
    if result is None:
        return Completed(name="Skipped", message=NO_CHAMPION, data=None)
    if result.drifted and file is None and champion.is_locked(root):
        result = replace(result, outcome=RETRAINING_RUNS)
    elif result.drifted and file is None and result.labelled:
        retraining: Any = retrain(root, return_state=True).result(raise_on_failure=False)
        if isinstance(retraining, BaseException):
            raise retraining
        result, skipped = replace(result, outcome=retraining.outcome), retraining.skipped
    elif result.drifted:
        result = replace(result, outcome=LABELS_NEEDED)
    get_run_logger().info("%s", result)
    if skipped:
        return Failed(message="\n".join([str(result), *skipped]), data=result)
    return Completed(name="Drifted" if result.drifted else "Completed", message=str(result), data=result)
