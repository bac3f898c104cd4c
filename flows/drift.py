"""Drift check of new texts against those of the champion: python -m flows.drift [--file texts.txt]

If the texts have drifted and labelled rows wait, a retraining starts. Settings: `drift` in params.yaml.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed

from epigram.core.display import echo
from epigram.core.errors import InputMissingError, handle_errors, run_typer
from epigram.core.files import write_json
from epigram.monitoring.drift import MEASURES
from epigram.runner.retraining import champion, drift
from epigram.runner.retraining.drift import Drift
from epigram.runner.workspace.settings import load
from flows.retrain import call_flow, retrain

NO_CHAMPION = "there is no champion yet, so drift cannot be measured; run python -m flows.retrain first"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@flow(name="drift_check")
def drift_check(root: Path | str = ".", file: Path | str | None = None) -> State[Any]:
    """Measure the waiting texts, or those of `file`, write runs/drift/TIME.json, and retrain if they have drifted.

    Retraining needs waiting rows with labels and no `file`. The state's data is a Drift, or None if there is no
    champion.
    """
    root = Path(root).resolve()
    settings, latest = load(root / "params.yaml"), champion.current(root)
    if latest is None:
        return Completed(name="Skipped", message=NO_CHAMPION, data=None)
    new = drift.new_texts(root, latest.dataset, settings, Path(file).resolve() if file else None)
    result = drift.measure(champion.restore(root, latest), latest.number, new, settings.drift.threshold)
    write_json(root / "runs" / "drift" / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.json", result.as_json())
    create_markdown_artifact(f"**{result}**\n\n{table(result)}", key="drift")
    if result.drifted and file is None and result.labelled:
        retraining: Any = retrain(root, latest.dataset, return_state=True).result()
        outcome = f"{'promoted' if retraining.promoted else 'refused'}: {retraining.reason}"
        result = replace(result, outcome=outcome)
    elif result.drifted:
        result = replace(
            result,
            outcome="to retrain on such texts, put labelled ones into the folder retrain.incoming of params.yaml",
        )
    get_run_logger().info("%s", result)
    return Completed(name="Drifted" if result.drifted else "Completed", message=str(result), data=result)


def table(result: Drift) -> str:
    """Return the measures as a Markdown table."""
    head = ["| measure | index | expected by chance | drifted | description |", "| --- | ---: | ---: | --- | --- |"]
    rows = [
        f"| {each.name} | {each.index:.3f} | {f'{each.chance:.3f}' if isfinite(each.chance) else 'any'} "
        f"| {'**yes**' * each.drifted} | {MEASURES[each.name]} |"
        for each in result.measures
    ]
    return "\n".join([*head, *rows]) + f"\n\nthreshold: {result.threshold:g}\n"


@app.command()
@handle_errors
def main(
    file: Annotated[
        Path | None, typer.Option(help="File with texts to measure. Default: the files in retrain.incoming.")
    ] = None,
) -> None:
    """Measure the drift of new texts from the champion's texts; retrain if they have drifted."""
    if file is not None and not file.is_file():
        raise InputMissingError(f"invalid --file: {file} does not exist; expected a file with texts")
    result: Drift | None = call_flow(drift_check, Path.cwd(), file)
    if result is None:
        raise InputMissingError(NO_CHAMPION)
    if result.measures:
        echo(table(result))
    echo(result)


if __name__ == "__main__":
    run_typer(app)
