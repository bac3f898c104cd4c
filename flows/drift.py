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
from epigram.core.errors import InputMissingError, handle_errors, started
from epigram.core.files import write_json
from epigram.monitoring.drift import MEASURES
from epigram.runner.retraining import champion, drift
from epigram.runner.retraining.drift import Drift
from epigram.runner.workspace.settings import load
from flows.retrain import called, retrain

NO_CHAMPION = "there is no champion to measure against yet: run python -m flows.retrain first"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@flow(name="drift_check")
def drift_check(root: Path | str = ".", file: Path | str | None = None) -> State[Any]:
    """Measure the waiting texts, or those of `file`, write runs/drift/TIME.json, and retrain if they have drifted.

    Retraining needs waiting rows with labels and no `file`. The state's data is a Drift, or None if there is no
    champion.
    """
    root = Path(root).resolve()
    settings, now = load(root / "params.yaml"), champion.current(root)
    if now is None:
        return Completed(name="Skipped", message=NO_CHAMPION, data=None)
    new = drift.arrived(root, now.dataset, settings, Path(file).resolve() if file else None)
    found = drift.measure(champion.restore(root, now), now.number, new, settings.drift.threshold)
    write_json(root / "runs" / "drift" / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.json", found.as_json())
    create_markdown_artifact(f"**{found}**\n\n{table(found)}", key="drift")
    if found.drifted and file is None and found.labelled:
        result: Any = retrain(root, now.dataset, return_state=True).result()
        found = replace(found, outcome=f"{'promoted' if result.promoted else 'refused'}: {result.reason}")
    elif found.drifted:
        found = replace(found, outcome="to learn from them, label some and put them where new rows arrive")
    get_run_logger().info("%s", found)
    return Completed(name="Drifted" if found.drifted else "Completed", message=str(found), data=found)


def table(found: Drift) -> str:
    """Return the measures as a Markdown table."""
    head = ["| measure | index | by chance up to | drifted | |", "| --- | ---: | ---: | --- | --- |"]
    rows = [
        f"| {each.name} | {each.index:.3f} | {f'{each.chance:.3f}' if isfinite(each.chance) else 'any'} "
        f"| {'**yes**' * each.drifted} | {MEASURES[each.name]} |"
        for each in found.measures
    ]
    return "\n".join([*head, *rows]) + f"\n\nthreshold: {found.threshold:g}\n"


@app.command()
@handle_errors
def main(
    file: Annotated[Path | None, typer.Option(help="Texts to measure, instead of those that wait.")] = None,
) -> None:
    """Measure the drift of new texts from those of the champion; retrain if they have drifted."""
    if file is not None and not file.is_file():
        raise InputMissingError(f"{file} is missing: --file names a file with texts")
    found: Drift | None = called(drift_check, Path.cwd(), file)
    if found is None:
        raise InputMissingError(NO_CHAMPION)
    if found.measures:
        echo(table(found))
    echo(found)


if __name__ == "__main__":
    started(app)
